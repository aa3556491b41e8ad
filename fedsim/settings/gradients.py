"""Strategies to which clients send the gradient of one batch: what they go with."""

from typing import TYPE_CHECKING

from fedsim.errors import UsageError

if TYPE_CHECKING:
    from fedsim.settings.combination import Combination


def check(asked: "Combination", name: str = "gradients") -> None:
    """Refuses rounds of more than one gradient, and masking of a momentum that the server has."""
    if asked.temporal != 1:
        raise UsageError(
            f"--temporal is {asked.temporal}: strategy {name} sends the gradient of one batch; "
            "give --temporal 1"
        )
    if asked.masks:
        raise UsageError(
            f"--momentum-masking is 'on': with strategy {name} the server has the momentum, and "
            "clients have none to mask"
        )


def check_twice(asked: "Combination") -> None:
    """As ``check``, and refuses rounds that some clients are not part of: MARINA's.

    A client computes a gradient at the model of the round before, which it must have been sent.
    """
    check(asked, "marina")
    for flag, value in (("--cohort", asked.cohort), ("--min-replies", asked.required)):
        if value != asked.clients:
            raise UsageError(
                f"{flag} is {value} of {asked.clients} clients: with strategy marina every client "
                "takes part in every round, for it needs the model of the round before"
            )
