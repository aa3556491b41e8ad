"""A strategy of one of fedsim's own algorithms: the algorithm, and what it remembers."""

from collections.abc import Iterable
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid

from compressors import Compressor, State, text
from compressors.whole.memory import nest, unnest
from strategies.algorithms.base import Algorithm
from strategies.algorithms.requirements import Setup
from strategies.channel.late import LATE
from strategies.channel.server_end import Side
from strategies.server.base import ChannelStrategy


def check(rule: Algorithm, strategy: ChannelStrategy) -> None:
    """Raises ``ValueError`` for a strategy whose settings the algorithm does not go with."""
    if rule.refuses_buffers and strategy.buffers is not None:
        name, reason = type(rule).__name__, rule.refuses_buffers
        raise ValueError(f"buffers is {strategy.buffers!r}; with {name} {reason}: give None")
    late = next((name for name, policy in LATE.items() if policy == strategy.late), "")
    setup = Setup(
        strategy.uplink, strategy.downlink, strategy.clients, strategy.cohort, strategy.required,
        late, max_norm=strategy.max_norm,
    )  # fmt: skip
    if (wrong := rule.unmet(setup)) is not None:
        value = getattr(setup, wrong.setting)
        shown = text(value) if wrong.setting in ("uplink", "downlink") else repr(value)
        instead = f": give {wrong.instead}" if wrong.instead else ""
        raise ValueError(
            f"{wrong.setting} is {shown}; {type(rule).__name__} {wrong.reason}{instead}"
        )


class RuledStrategy(ChannelStrategy):
    """A ``ChannelStrategy`` whose model moves as an algorithm says.

    The server evaluates (``evaluate_fn``), so that evaluation costs no bits: clients'
    ``@app.evaluate`` is not called.

    Args:
        uplink: how clients encode.
        downlink: how the global update is encoded; raw by default.
        clients: the number of clients; waits until all have registered.
        rule: the algorithm.
        common: what else ``ChannelStrategy`` takes.

    Attributes:
        memory: the algorithm's.

    Raises ``ValueError`` for an uplink of which the algorithm can make nothing.
    """

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        clients: int,
        rule: Algorithm,
        **common: Any,
    ) -> None:
        super().__init__(uplink, downlink, clients=clients, rule=rule, **common)
        self.rule = rule
        check(rule, self)
        if self.required is None:
            self.required = self.cohort if rule.every_reply else 1
        self.memory: State = {}

    def sides(self) -> list[Side]:
        """Those of every strategy, and the algorithm's own."""
        return [*super().sides(), *self.rule.sides(self.seed)]

    def state(self) -> tuple[State, dict[str, Any]]:
        """The channel's memory, messages under way included, and the algorithm's."""
        tensors, values = super().state()
        return tensors | nest("rule", self.memory), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        super().restore(tensors, values)
        self.memory = unnest("rule", tensors)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nothing."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Nothing to aggregate."""
        return None
