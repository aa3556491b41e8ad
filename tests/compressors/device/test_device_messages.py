"""Messages of updates on a GPU are those of the host: bytes, what was sent, and the memory."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import ROWS, Packet, State, UpdateError, compress, parse
from compressors.kernels.gpu.entries import ENTRIES
from compressors.message import Upload, compress_all
from compressors.segments import plan
from tests.support.gpu import (
    DEVICE,
    by_kernels,
    equal_bits,
    needs_triton,
    same_as_host,
    taken,
    waits,
)

pytestmark = needs_triton
TEXTS = (
    "ef(topk(0.1) | cnat(8) | golomb(0.02))",
    "flat(topk(0.02) | float32 | golomb)",
    "ef(cnat)",
    "sign(0.5)",
    "topk(0.2) | dither(7, 2, standard, 16, cnat) | golomb",
    "terngrad",
    "by_name('size<10', raw, 't*', ef(cnat(8)), '*', sbc(0.1))",
)
WITH_KERNELS = [row.name for row in ROWS if plan.plan_of(parse(row.example)) is not None]


def update(seed: int) -> dict[str, Tensor]:
    """Tensors of many kinds: small, empty, a scalar, of zeros, with ties, with subnormals."""
    rng = np.random.default_rng(seed)
    shapes = {"w": (30, 20), "none": (0, 3), "zero": (7,), "ties": (9, 5), "least": (9,), "one": ()}
    found = {
        name: torch.from_numpy(rng.normal(size=shape).astype(np.float32))
        for name, shape in shapes.items()
    }
    found["ties"] = found["ties"].round().t()
    found["least"] *= 1e-43
    found["zero"] *= 0
    return found


@pytest.mark.parametrize("text", TEXTS)
def test_messages_are_those_of_the_host(text: str) -> None:
    same_as_host(text, [update(1)], seed=9)


@pytest.mark.slow
def test_the_memory_goes_on() -> None:
    same_as_host("sbc(0.05)", [update(1), update(2)])


@pytest.mark.parametrize(
    "text",
    ["dither(7, inf, standard, 700)"]
    + [
        pytest.param(text, marks=pytest.mark.slow)
        for text in ("cnat", "sign(0.5)", "terngrad", "ef(shrink(qsgd(3, 2048)))", "ef_sign()")
    ],
)
def test_sizes_around_a_programs_edge(text: str) -> None:
    rng, sizes = np.random.default_rng(2), (ENTRIES - 1, ENTRIES, ENTRIES + 1)
    same_as_host(
        text, [{f"t{n}": torch.from_numpy(rng.normal(size=n).astype(np.float32)) for n in sizes}]
    )


TOGETHER = (
    "sbc(0.1)",
    "by_name('t*', qsgd(7, 4), 'w', flat(topk(0.02) | float32 | golomb), '*', ef(cnat))",
)
MORE_TOGETHER = (
    "ef(flat(one_sided(0.01) | mean | golomb))",
    "topk(0.2) | dither(7, 2, standard, 16, cnat) | golomb",
    "ef(topk(0.1) | shrink(qsgd(7, 8)) | golomb)",
    "ef(by_name('w', one_sided(0.05) | mean | golomb, 'none', cnat, '*', qsgd(7, 4)))",
)


def together(
    text: str, updates: list[dict[str, Tensor]], states: list[Any], seed: int
) -> list[tuple[Packet, State] | Exception]:
    there = [{n: x.to(DEVICE) for n, x in one.items()} for one in updates]
    uploads = [
        Upload(parse(text), one, state, seed + i)
        for i, (one, state) in enumerate(zip(there, states, strict=True))
    ]
    with taken():
        return compress_all(uploads)


def same_together(text: str, clients: int) -> None:
    """Two rounds of several clients: each message, and each memory, as of the client by itself."""
    method = parse(text)
    here: list[State | None] = [None] * clients
    states: list[State | None] = [None] * clients
    for number in (0, 10):
        updates = [update(number + i) for i in range(clients)]
        found = together(text, updates, states, seed=number)
        for i, one in enumerate(updates):
            expected, here[i] = compress(method, one, here[i], number + i)
            got = found[i]
            assert not isinstance(got, Exception)
            packet, states[i] = got
            assert packet.payload == expected.payload, (text, i)
            assert packet.spans == expected.spans and packet.counts == expected.counts
            with taken():
                assert list(packet.sent) == list(expected.sent)
                for name, said in expected.sent.items():
                    assert equal_bits(packet.sent[name].decoded, said.decoded), (text, i, name)
            assert same_memory(states[i], here[i])
    own = [
        {x.untyped_storage().data_ptr() for x in one.values() if x.numel()} for one in states if one
    ]
    assert not any(a & b for a, b in pairwise(own))  # no client's keeps another's alive


def same_memory(a: State | None, b: State | None) -> bool:
    assert a is not None and b is not None
    return list(a) == list(b) and all(equal_bits(a[key], b[key]) for key in a)


@pytest.mark.slow
@pytest.mark.parametrize("text", TOGETHER)
def test_messages_of_several_clients_are_those_of_each(text: str) -> None:
    same_together(text, 2)


@pytest.mark.slow
@pytest.mark.parametrize("text", MORE_TOGETHER)
def test_messages_of_several_clients_by_more_methods(text: str) -> None:
    same_together(text, 3)


@pytest.mark.slow
def test_a_client_whose_update_is_wrong_fails_alone() -> None:
    fine = {"w": torch.tensor([1.0, -2.0, 3.0])}
    wrong = {"w": torch.tensor([1.0, torch.nan, 3.0])}
    updates = [fine, wrong, {"w": torch.ones(2)}, fine]
    one, failed, other, last = together("sbc(0.4)", updates, [None] * 4, 0)
    assert isinstance(failed, UpdateError) and "'w' holds NaN" in str(failed)
    for found, sent in ((one, updates[0]), (other, updates[2]), (last, updates[3])):
        assert not isinstance(found, Exception)
        assert found[0].payload == compress(parse("sbc(0.4)"), sent)[0].payload


MANY = "by_name('t0', raw, 't1', flat(topk(0.3) | qsgd(3, 2) | golomb), '*', sbc(0.3))"


@pytest.mark.parametrize("text", ["sbc(0.3)", MANY])
def test_a_message_waits_once_for_any_number_of_tensors(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = waits(monkeypatch, "compressors.device.write")
    many = {f"t{i}": torch.arange(-2.0, i + 1) for i in range(8)}
    packet, _ = by_kernels(text, many)
    assert len(waited) == 1
    assert packet.payload == compress(parse(text), many)[0].payload


@pytest.mark.slow
@pytest.mark.parametrize("text", ["one_sided(1) | mean | golomb", "topk(1) | l1_sign | golomb"])
def test_means_that_the_order_of_a_sum_could_change(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halfway between two float32 numbers, equal on both sides; the host sums the inexact."""
    asked = waits(monkeypatch, "compressors.device.write")
    half = torch.tensor([1.0, 1.0 + 2.0**-23] * 4)
    both = torch.tensor([0.3, -0.3, 0.1, -0.1, 0.2, -0.2])
    wide = torch.tensor([2.0**60, 2.0**36, 1.0, 1.0])  # halfway, but for what float64 cannot hold
    same_as_host(text, [{"half": half, "both": both, "wide": wide}])
    assert len(asked) == 3 and asked[1] == 1  # the values of the last tensor alone


def test_a_small_norm_that_the_order_of_a_sum_could_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root of the sum of squares lies halfway between two float32 numbers, far below 2**-48."""
    asked = waits(monkeypatch, "compressors.device.write")
    half = torch.tensor([2.0**-60, 2.0**-72, 2.0**-72, 2.0**-84])
    same_as_host("qsgd(7)", [{"half": half, "one": half[:1]}])
    assert len(asked) == 3 and asked[1] == 1


def test_buckets_in_doubt_wait_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of one bucket lies halfway between two float32 numbers; the others are certain."""
    asked = waits(monkeypatch, "compressors.device.write")
    half = [2.0**60, 2.0**36, 1.0, 1.0]
    flat = torch.tensor([3.0, 1.0, 1.0, 2.0, *half, 0.5])
    both = {"a": flat[:3], "b": flat[3:]}
    same_as_host("flat(topk(1) | dither(3, 1, bucket=4) | golomb)", [both])
    assert len(asked) == 3 and asked[1] == 1


def test_what_is_wrong_is_named() -> None:
    for text in ("sbc(0.1)", "cnat", "dither(3)"):
        with pytest.raises(UpdateError, match="'b' holds NaN or infinity"):
            by_kernels(text, {"a": torch.ones(5), "b": torch.tensor([1.0, float("nan")])})
    _, state = by_kernels("ef(topk(0.5) | float32 | golomb)", {"a": torch.full((4,), 3e38)})
    with pytest.raises(UpdateError, match="'a' and its memory overflow"):
        by_kernels("ef(topk(0.5) | float32 | golomb)", {"a": torch.full((4,), 3e38)}, state)
    with pytest.raises(UpdateError, match="belongs to another model"):
        by_kernels("ef(topk(0.5) | float32 | golomb)", {"b": torch.ones(4)}, state)


def test_the_memory_is_not_the_update() -> None:
    given = torch.tensor([1.0, 5.0, 2.0])
    _, state = by_kernels("ef(topk(0.3) | float32 | golomb)", {"a": given})
    assert given.tolist() == [1.0, 5.0, 2.0]
    assert state["residual/a"].tolist() == [1.0, 0.0, 2.0]


def test_the_rows_with_kernels() -> None:
    """The catalogue's page has them in a column, which is made of the same."""
    least = "sbc stc ef_sign topk_cnat gradient_dropping q_sparse signsgd fedpaq topk one_sided "
    least += "cnat qsgd dither natural_dither terngrad shrink sign ternary raw by_name ef"
    assert set(WITH_KERNELS) >= set(least.split())
    assert not set(WITH_KERNELS) & {"sketch", "dgc", "randk", "huffman", "rle", "lowrank"}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_every_row_with_kernels(name: str) -> None:
    text = next(row.example for row in ROWS if row.name == name)
    same_as_host(text, [update(4)])
