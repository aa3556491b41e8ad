"""Several clients' halves as one."""

from collections.abc import Generator, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace

from torch import Tensor

from compressors import Packet, State, Tensors
from compressors.whole.memory import nest, unnest
from strategies.algorithms.base import (
    PLAIN,
    Client,
    ClientUpdate,
    GradientHook,
    Training,
    TrainJob,
    TrainResult,
)
from strategies.channel.client_end import Delivery


def chain(*halves: Client) -> Client:
    """One client's half of several: each goes on with what those before it have made.

    Example:
        >>> from strategies import FedProx
        >>> chain(FedProx(0.1), PLAIN)
        FedProx(mu=0.1)
    """
    active = [half for half in halves if half is not PLAIN]
    return Chain(tuple(active)) if len(active) > 1 else active[0] if active else PLAIN


class Hooks:
    """Gradient hooks, one after the other; a copy has copies of them."""

    def __init__(self, hooks: Sequence[GradientHook]) -> None:
        self.hooks = hooks

    def __call__(self, parameters: Tensors) -> None:
        """What every hook adds."""
        for hook in self.hooks:
            hook(parameters)

    def __copy__(self) -> "Hooks":
        return Hooks([*map(copy, self.hooks)])


def flat_hooks(hooks: Iterable[GradientHook]) -> list[GradientHook]:
    """The hooks, and those that a ``Hooks`` among them has in its place.

    Example:
        >>> len(flat_hooks([print, Hooks([print, Hooks([print])])]))
        3
    """
    return [
        inner
        for hook in hooks
        for inner in (flat_hooks(hook.hooks) if isinstance(hook, Hooks) else [hook])
    ]


@dataclass(frozen=True)
class Chain(Client):
    """Clients' halves, one after the other.

    The payload's template and the update go through all of them, initial weights of a later one
    replace those of an earlier one by name, and gradients get what every hook adds.
    """

    halves: tuple[Client, ...]  # two at least; the state of the last has no prefix

    @property
    def hooks_gradients(self) -> bool:
        return any(half.hooks_gradients for half in self.halves)

    @property
    def fine_tuning(self) -> int:
        return max(half.fine_tuning for half in self.halves)

    def payload_template(self, model: Tensors) -> dict[str, Tensor]:
        template = dict(model)
        for half in self.halves:
            template = half.payload_template(template)
        return template

    def initial_weights(self, delivery: Delivery, state: State) -> Tensors:
        weights: dict[str, Tensor] = {}
        for half, half_state in self._each(state):
            weights |= half.initial_weights(delivery, half_state)
        return weights

    def gradient_hook(self, delivery: Delivery, state: State) -> GradientHook | None:
        optional = [
            half.gradient_hook(delivery, half_state) for half, half_state in self._each(state)
        ]
        hooks = [hook for hook in optional if hook is not None]
        return Hooks(hooks) if hooks else None

    def train(self, delivery: Delivery, state: State, job: TrainJob) -> Training:
        """That of the last half which has another than one job."""
        splits = [pair for pair in self._each(state) if type(pair[0]).train is not Client.train]
        half, half_state = splits[-1] if splits else (PLAIN, state)
        return (yield from half.train(delivery, half_state, job))

    def make_update(
        self, delivery: Delivery, state: State, job: TrainJob, result: TrainResult
    ) -> Generator[TrainJob, TrainResult, ClientUpdate]:
        update: Tensors = result.update
        compressor_state: State | None = None
        for half, half_state in self._each(state):
            client_update = half.make_update(
                delivery, half_state, job, replace(result, update=dict(update))
            )
            if isinstance(client_update, Generator):
                client_update = yield from client_update
            update = client_update.update
            compressor_state = client_update.compressor_state or compressor_state
        return ClientUpdate(update, compressor_state)

    def next_state(
        self,
        delivery: Delivery,
        state: State,
        job: TrainJob,
        result: TrainResult,
        update: Tensors,
        packet: Packet,
    ) -> State:
        after: State = {}
        for place, (half, half_state) in enumerate(self._each(state)):
            half_after = half.next_state(delivery, half_state, job, result, update, packet)
            after |= nest(self._prefix(place), half_after) if self._prefix(place) else half_after
        return after

    def _each(self, state: State) -> list[tuple[Client, State]]:
        """Every half with its own state."""
        prefixes = [self._prefix(place) for place in range(len(self.halves))]
        others = tuple(f"{prefix}/" for prefix in prefixes if prefix)
        last = {name: x for name, x in state.items() if not name.startswith(others)}
        return [
            (half, unnest(prefix, state) if prefix else last)
            for half, prefix in zip(self.halves, prefixes, strict=True)
        ]

    def _prefix(self, place: int) -> str:
        return f"chain-{place}" if place + 1 < len(self.halves) else ""
