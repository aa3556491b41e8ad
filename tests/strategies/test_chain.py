"""Several clients' halves as one: each has its state, and the last compressor's state is sent."""

from typing import Any, cast

import pytest
import torch

from compressors import State
from strategies.algorithms.base import PLAIN, Client, ClientUpdate, TrainResult
from strategies.algorithms.chain import chain


class Steps(Client):
    """Counts its messages in steps of ``size``, and adds that count to gradients."""

    def __init__(self, size: float, compressor_state: State | None = None) -> None:
        self.size, self.compressor_state = size, compressor_state

    def gradient_hook(self, delivery: Any, state: State) -> Any:
        return lambda parameters: parameters["w"].grad.add_(state.get("count", 0.0))

    def make_update(self, *_: Any) -> ClientUpdate:
        return ClientUpdate({}, self.compressor_state)

    def next_state(self, delivery: Any, state: State, *_: Any) -> State:
        return {"count": state.get("count", torch.tensor(0.0)) + self.size}


def test_each_half_goes_on_from_its_own_state() -> None:
    nothing: Any = None
    half, state = chain(Steps(1.0), PLAIN, Steps(10.0), Steps(100.0)), State()
    for _ in range(2):
        state = half.next_state(nothing, state, nothing, nothing, {}, nothing)
    w = torch.zeros(1, requires_grad=True)
    w.grad = torch.zeros(1)
    hook = half.gradient_hook(nothing, state)
    assert hook is not None
    hook({"w": w})
    assert w.grad.item() == 222


@pytest.mark.parametrize(("states", "sent"), [([1, None], 1), ([1, 2], 2), ([None, 2], 2)])
def test_the_last_state_of_the_compressor_is_sent(states: list[Any], sent: int) -> None:
    halves = [Steps(1.0, {"s": torch.tensor(x)} if x else None) for x in states]
    nothing: Any = None
    making: Any = chain(*halves).make_update(nothing, {}, nothing, TrainResult({}, {}, 0.0))
    with pytest.raises(StopIteration) as end:
        next(making)
    assert cast(ClientUpdate, end.value.value).compressor_state == {"s": torch.tensor(sent)}
