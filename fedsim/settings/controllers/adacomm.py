"""AdaComm: the delay follows the training loss."""

import math
from dataclasses import dataclass
from typing import ClassVar

from fedsim.settings.controllers.base import Action, Memory, Observation, check_whole_number


@dataclass(frozen=True)
class AdaComm:
    """n follows the square root of the training loss, and changes every so many iterations.

        N = ceil(sqrt(F / F_0) n_0)
        n' = max(1, N)               (where N < n)
        n' = max(1, floor(n / 2))    (else)

    Here n_0 is ``--temporal``, F the mean training loss that clients report, and F_0 the first one.
    So n never grows. After a round that nobody reported n waits for the next.

    Source: Wang & Joshi 2019 (Adaptive communication strategies to achieve the best error-runtime
    trade-off in local-update SGD), equations 16 and 17, at a constant learning rate. Their interval
    is wall-clock time; here it is local iterations, so that the same seed gives the same run.

    Args:
        every: local iterations from one change to the next.
    """

    needs: ClassVar[tuple[str, ...]] = ("train_loss",)
    moves: ClassVar[tuple[str, ...]] = ("n",)
    every: int

    def __post_init__(self) -> None:
        check_whole_number("adacomm: every", self.every)

    def choose(self, observation: Observation, memory: Memory) -> tuple[Action, Memory]:
        n, first, loss = memory.get("n", observation.n), memory.get("first"), observation.train_loss
        turn, now = memory.get("turn", 0), observation.iteration // self.every
        if first is None:
            first = loss
        elif loss is not None and now > turn and first > 0:
            proposal = math.ceil(math.sqrt(max(0.0, loss) / first) * observation.n)
            n = max(1, proposal if proposal < n else n // 2)
        turn = turn if loss is None else max(turn, now)  # of a round that nobody reported
        return Action(n, observation.p), {"n": n, "first": first, "turn": turn}
