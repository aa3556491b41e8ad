"""Lifts: local and global thresholds, rules by name and size."""

import pytest
import torch
from hypothesis import given
from torch import Tensor

from compressors import ByName, Float32, Golomb, Pipeline, Raw, TopK, compress, parse
from tests.support.generators import runs, same_bits, updates, whole_numbers

GLOBAL = parse("flat(topk(0.2) | float32 | golomb)")
LOCAL = parse("topk(0.2) | float32 | golomb")


def joined(update: dict[str, Tensor]) -> Tensor:
    return torch.cat([x.reshape(-1) for x in update.values()]) if update else torch.zeros(0)


@given(updates())
def test_flat_is_one_threshold_over_the_concatenation(update: dict[str, Tensor]) -> None:
    whole = joined(update)
    expected = TopK(0.2).select(whole, 0)[0] if whole.numel() else torch.zeros(0).long()
    sent = compress(GLOBAL, update)[0].sent
    kept, start = torch.zeros_like(whole), 0
    kept[expected] = whole[expected]
    found = []
    for name, x in update.items():
        assert sent[name].decoded.shape == x.shape
        if isinstance(sent[name].indices, Tensor):
            found += (sent[name].indices + start).tolist()
        start += x.numel()
    assert found == expected.tolist()
    assert torch.equal(joined({name: one.decoded for name, one in sent.items()}), kept)


@given(updates())
def test_flat_writes_what_one_vector_writes(update: dict[str, Tensor]) -> None:
    """The same bits behind the fingerprint; only names and shapes differ."""
    whole = compress(LOCAL, {"all": joined(update)})[0]
    parts = compress(GLOBAL, update)[0]
    assert parts.payload[3:] == whole.payload[3:]
    assert parts.spans == whole.spans


@given(updates())
def test_per_tensor_is_each_tensor_by_itself(update: dict[str, Tensor]) -> None:
    together = compress(LOCAL, update)[0].sent
    for name, x in update.items():
        alone = compress(LOCAL, {name: x})[0].sent[name]
        assert same_bits({name: alone.decoded}, {name: together[name].decoded})


def test_indices_are_split_at_the_tensors_edges() -> None:
    update = {
        "a": torch.tensor([9.0, 0, 8]),
        "none": torch.zeros(0),
        "b": torch.tensor([[7.0, 0], [0, 6]]),
        "quiet": torch.tensor(0.5),
        "c": torch.tensor([0, 0, 0, 0, 0, 0, 5.0]),
    }
    packet, _ = compress(parse("flat(topk(0.3333) | float32)"), update)
    assert {name: one.indices.tolist() for name, one in packet.sent.items()} == {
        "a": [0, 2],
        "none": [],
        "b": [0, 3],
        "quiet": [],
        "c": [6],
    }


RULES = ByName(
    (("size<4", Raw()), ("*.bias", parse("sbc(0.1)")), ("fc[12].*", GLOBAL), ("*", LOCAL))
)
NAMES = {"conv.bias": 10, "fc1.weight": 20, "tiny.bias": 3, "fc2.weight": 30, "conv.weight": 40}


def named() -> dict[str, Tensor]:
    return {name: whole_numbers(n, n) for name, n in NAMES.items()}


def test_the_first_rule_that_fits_counts() -> None:
    packet, memory = compress(RULES, named())
    assert list(packet.sent) == list(NAMES)
    alone = {"tiny.bias": Raw(), "conv.bias": parse("sbc(0.1)"), "conv.weight": LOCAL}
    for name, compressor in alone.items():
        one = compress(compressor, {name: named()[name]})[0].sent[name]
        assert same_bits({name: one.decoded}, {name: packet.sent[name].decoded})
    fc = {name: x for name, x in named().items() if name.startswith("fc")}
    together = compress(GLOBAL, fc)[0].sent
    assert all(torch.equal(together[name].indices, packet.sent[name].indices) for name in fc)
    assert list(memory) == ["1/residual/conv.bias"]


def test_the_message_holds_the_tensors_rule_by_rule() -> None:
    update = {"b": torch.tensor([1.0]), "a": torch.tensor([2.0])}
    packet, _ = compress(ByName((("a", Raw()), ("*", Raw()))), update)
    assert packet.payload[3:] == torch.tensor([2.0, 1.0]).numpy().astype(">f4").tobytes()
    assert list(packet.sent) == ["b", "a"]


@pytest.mark.parametrize(("bound", "raw"), [(10, False), (11, True)])
def test_sizes_are_bounds_on_entries(bound: int, raw: bool) -> None:
    rules = ByName(((f"size<{bound}", Raw()), ("*", LOCAL)))
    packet, _ = compress(rules, {"w": torch.ones(2, 5)})
    assert (packet.sent["w"].count == 10) == raw
    assert compress(rules, {"s": torch.tensor(2.0)})[0].sent["s"].count == 1


@given(runs())
def test_rules_keep_their_own_memory(many: list[dict[str, Tensor]]) -> None:
    """Eleven rules, so that memory 1 and memory 10 have a common start of their names."""
    part = parse("ef(topk(0.3) | float32)")
    rules = ByName((*((f"{i}", part) for i in range(10)), ("*", part)))
    state = rules.init(many[0])
    alone = part.init(many[0])
    for update in many:
        one, state = compress(rules, update, state)
        other, alone = compress(part, update, alone)
        assert same_bits(
            {name: sent.decoded for name, sent in one.sent.items()},
            {name: sent.decoded for name, sent in other.sent.items()},
        )


def test_no_rule_fits() -> None:
    rules = ByName((("*.weight", Raw()), ("size<2", Raw())))
    with pytest.raises(
        ValueError,
        match="no rule of by_name fits tensor 'conv.bias': the rules are '\\*.weight', 'size<2'",
    ):
        compress(rules, named())


def test_a_pipeline_is_a_sparsifier_and_a_quantizer() -> None:
    for parts in ((TopK(0.5), TopK(0.5)), (Float32(), Float32())):
        with pytest.raises(ValueError, match="takes a sparsifier, then a quantizer, not"):
            Pipeline(*parts)
    with pytest.raises(ValueError, match="a pipeline codes positions, which float32 does not"):
        Pipeline(TopK(0.5), Float32(), Float32())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a pipeline codes symbols, which golomb does not"):
        Pipeline(TopK(0.5), Float32(), Golomb(), Golomb())  # type: ignore[arg-type]
