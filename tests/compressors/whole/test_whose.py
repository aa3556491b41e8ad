"""A memory belongs to one method: every other one refuses it, and it never holds infinity."""

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import pytest
import torch

from compressors import CATALOGUE, NotFinite, UpdateError, compress, parse
from compressors.base import ALL, SentTensor
from compressors.whole.feedback import ErrorFeedback

UPDATE = {"w": torch.tensor([[4.0, 1.0, -2.0], [8.0, 2.0, -4.0], [1.0, 1.0, 1.0]])}
KEEPERS = [
    "ef(topk(0.5) | float32)",
    "ef(lowrank(1))",
    "lowrank(1)",
    "ef21(topk(0.5) | float32)",
    "diana(cnat)",
    "dgc(0.5)",
    "by_name('v', raw, '*', ef(raw))",
]
OTHERS = ["raw", "qsgd(7)", "flat(topk(0.5) | float32)", "marina(cnat, 0.1)"]


@pytest.mark.parametrize(("owner", "taker"), [*product(KEEPERS, KEEPERS + OTHERS)])
def test_another_methods_memory_is_refused(owner: str, taker: str) -> None:
    if {owner, taker} == {"ef(topk(0.5) | float32)", "ef(lowrank(1))"} or owner == taker:
        return
    _, memory = compress(parse(owner), UPDATE)
    with pytest.raises(UpdateError, match="it belongs to another"):
        compress(parse(taker), UPDATE, memory)


def test_settings_may_change_while_a_memory_stays() -> None:
    _, memory = compress(parse("ef(topk(0.1) | float32)"), UPDATE)
    packet, _ = compress(parse("sbc(0.5)"), {"w": torch.zeros(3, 3)}, memory)
    assert packet.sent["w"].count
    _, memory = compress(parse("by_name('w', ef(topk(0.1) | float32))"), UPDATE)
    with pytest.raises(UpdateError, match="the memory holds 0, ef keeps residual and inner"):
        compress(parse("sbc(0.5)"), UPDATE, memory)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_class_says_what_it_keeps(name: str) -> None:
    """Of itself and its rules: a memory of no known kind is refused by all."""
    method: Any = parse(CATALOGUE[name].example)
    with pytest.raises(UpdateError, match="it belongs to another method"):
        compress(method, UPDATE, method.init(UPDATE) | {"unknown/w": torch.zeros(3, 3)})


@dataclass(frozen=True)
class Turned:
    """Sends minus the update."""

    codec_id: ClassVar[str] = "turned"
    keeps: ClassVar[tuple[str, ...] | None] = None
    needs_seed: ClassVar[bool] = False

    def init(self, template: Any) -> Any:
        return {}

    def write(self, update: Any, state: Any, out: Any, seed: int) -> Any:
        return {n: SentTensor(-x, ALL, x.shape) for n, x in update.items()}, state

    def read(self, bits: Any, template: Any, seed: int) -> Any:
        raise NotImplementedError


def test_what_is_left_of_a_message_may_overflow() -> None:
    method, huge = ErrorFeedback(Turned()), {"w": torch.full((3,), 2e38)}
    with pytest.raises(NotFinite, match="tensor 'w' and its memory overflow float32"):
        compress(method, huge)
