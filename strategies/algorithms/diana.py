"""DIANA: clients send how their updates differ from a shift that learns what updates are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from compressors import State, Tensors
from compressors.base import empty_like
from compressors.whole.feedback import Diana
from strategies.algorithms.base import Algorithm, Asked, Round, Runs
from strategies.algorithms.ef21 import check_late
from strategies.channel.traffic import Uplink, average


@dataclass(frozen=True)
class DIANA(Algorithm):
    """The model moves by h + mean(d), with d what clients sent by ``diana`` and h their mean shift.

    Then h moves as the clients' own shifts do: by alpha times the sum of d over the number of all
    clients. The shifts of clients that are not of a round's cohort stay where they are; the mean of
    d is over those that are, so that the step is unbiased. A reply that is not used moves nothing;
    its client takes it back.

    Source: Mishchenko et al. 2019 (DIANA), Algorithm 1, lines 9 to 12, momentum 0 and no
    regularizer.

    Example:
        >>> from compressors import parse
        >>> from strategies import build
        >>> build(DIANA(), parse("diana(qsgd(7))"), clients=4).clients
        4
    """

    adds_codes: ClassVar[bool] = True
    needs_method: ClassVar[str] = Diana.server
    exact_client_state: ClassVar[bool] = True

    def refuse(self, asked: Asked) -> None:
        check_late(asked, "differences")

    def check(self, strategy: Runs) -> None:
        if not isinstance(strategy.uplink, Diana):
            raise ValueError("DIANA adds its shift to differences: its uplink is diana(...)")

    def step(
        self, uplinks: Mapping[int, Uplink], memory: State, model: Tensors, now: Round
    ) -> tuple[Tensors | None, State]:
        assert isinstance(now.uplink, Diana)
        shift = memory or empty_like(model)
        came, share = average(uplinks, "uniform"), len(uplinks) / now.clients
        alpha = now.uplink.steps(came)
        after = {n: shift[n] + alpha[n] * share * x for n, x in came.items()}
        return {name: shift[name] + x for name, x in came.items()}, after
