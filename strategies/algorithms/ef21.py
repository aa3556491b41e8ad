"""EF21: clients send how their updates differ from what they said, and the server adds up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from compressors import State, Tensors
from compressors.base import empty_like
from compressors.whole import feedback
from strategies.algorithms.base import Algorithm, Asked, Refused, Round, Runs
from strategies.channel.late import Drop
from strategies.channel.traffic import Uplink


@dataclass(frozen=True)
class EF21(Algorithm):
    """Adds up what clients send with ``ef21``; the model moves by the sum over all clients' number.

    A client's part of the sum stays where it is in rounds without the client, and is zero before
    its first one. A reply that is not used does not enter the sum; its client takes it back. So
    ``late`` is ``hold`` or ``count``: a client never takes back what was dropped, and its sum and
    the server's would differ from then on. With ``ef21`` on the downlink the sum travels down by
    differences too (``channel.directions``).

    Source: Richtárik, Sokolov & Fatkhullin 2021 (EF21), Algorithm 2; partial participation as in
    Fatkhullin et al. 2021 (EF21 with bells and whistles); with differences both ways its EF21-BC.

    Example:
        >>> from compressors import parse
        >>> from strategies import build
        >>> build(EF21(), parse("ef21(topk(0.1) | float32)"), clients=4).late
        Hold()
    """

    adds_codes: ClassVar[bool] = True
    needs_method: ClassVar[str] = feedback.EF21.server
    exact_client_state: ClassVar[bool] = True

    def refuse(self, asked: Asked) -> None:
        check_late(asked, "differences")

    def check(self, strategy: Runs) -> None:
        if not isinstance(strategy.uplink, feedback.EF21):
            raise ValueError("EF21 adds up differences: its uplink is ef21(...)")
        if isinstance(strategy.late, Drop):
            raise ValueError("late is 'drop': a sum without one difference is not the client's")

    def step(
        self, uplinks: Mapping[int, Uplink], memory: State, model: Tensors, now: Round
    ) -> tuple[Tensors | None, State]:
        total = memory or empty_like(model)
        for uplink in uplinks.values():
            total = {name: x + uplink.update[name] for name, x in total.items()}
        return {name: x / now.clients for name, x in total.items()}, total


def check_late(asked: Asked, what: str) -> None:
    """Refuses late updates that are dropped: the client counts on a sum that the server lacks."""
    if asked.late == "drop":
        raise Refused(
            f"--late is 'drop': strategy {asked.name} adds up {what}, and without one of them the "
            "server's sum is no longer the client's; give --late hold or count"
        )
