"""What a caller may hand over, and the line that it gets otherwise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import compressors as c
from compressors import PayloadError, UpdateError, compress, decompress, parse
from compressors.message import Upload, compress_all
from tests.support.generators import METHODS as EVERY
from tests.support.generators import same_bits, small_update

W = torch.tensor([1.0, 2.0, 3.0, 4.0])
UPDATE = {"w": W}
SBC = parse("sbc(0.5)")
PAYLOAD = compress(SBC, UPDATE)[0].payload


def line_of(call: Callable[[], Any], error: type[Exception]) -> str:
    with pytest.raises(error) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said and len(said) < 400
    assert not any(word in said for word in ("Pipeline(", "TopK(", "ErrorFeedback(", "Raw()"))
    return said


MEMORIES = {
    "sbc(0.5)": ("residual/w", (4,)),
    "dgc(0.5)": ("momentum/w", (4,)),
    "powersgd(1)": ("residual/w", (6, 8)),
    "lowrank(1)": ("q/w", (1, 8)),
}


@pytest.mark.parametrize("method", MEMORIES)
def test_a_memory_of_another_model_is_refused(method: str) -> None:
    """One of another shape was added to all entries of a row, and sent."""
    key, shape = MEMORIES[method]
    update = {"w": torch.arange(48.0).reshape(6, 8) if len(shape) == 2 else W}
    memory = compress(parse(method), update)[1]
    for other in (torch.zeros(1), torch.zeros(3, *shape), torch.zeros(shape).double()):
        said = line_of(
            lambda o=other: compress(parse(method), update, memory | {key: o}), UpdateError
        )
        kind = key.partition("/")[0]
        assert said.startswith(f"tensor 'w': {kind} in the memory is {other.dtype} ")
        assert str(tuple(other.shape)) in said and str(tuple(memory[key].shape)) in said
    renamed = {k.replace("/w", "/v"): x for k, x in memory.items()}
    said = line_of(lambda: compress(parse(method), update, renamed), UpdateError)
    assert "of 'v', the update has 'w': it belongs to another model" in said
    more = memory | {key.replace("/w", "/v"): W}
    assert "of 'w', 'v'," in line_of(lambda: compress(parse(method), update, more), UpdateError)


def test_what_is_no_memory() -> None:
    assert "not a list" in line_of(lambda: compress(SBC, UPDATE, [W]), UpdateError)
    given: Any = {"residual/w": np.zeros(4, np.float32)}
    assert "'residual/w' is a numpy array" in line_of(
        lambda: compress(SBC, UPDATE, given), UpdateError
    )
    dgc = compress(parse("dgc(0.5)"), UPDATE)[1]
    del dgc["messages"]
    assert "messages" in line_of(lambda: compress(parse("dgc(0.5)"), UPDATE, dgc), UpdateError)


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64, torch.tensor])
def test_a_seed_is_any_whole_number(kind: Any) -> None:
    method = parse("randk(0.5) | float32")
    assert (
        compress(method, UPDATE, seed=kind(3))[0].payload
        == compress(method, UPDATE, seed=3)[0].payload
    )
    for bad in (3.5, None, "3"):
        said = line_of(lambda b=bad: compress(method, UPDATE, seed=b), ValueError)
        assert said == f"seed is {bad!r}: give a whole number"


H, TWO = np.float32(0.5), np.int64(2)


class Module(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(W.clone())


UPDATES = {
    "numpy array": (lambda: {"w": np.ones(4)}, "torch.from_numpy makes a tensor of it"),
    "numpy alone": (lambda: np.ones(4), "an update is a dict of names to tensors, not a numpy"),
    "list": (lambda: [W], "an update is a dict of names to tensors, not a list"),
    "None": (lambda: None, "an update is a dict of names to tensors, not None"),
    "a tensor": (lambda: W, "not a tensor (4,)"),
    "value None": (lambda: {"w": None}, "tensor 'w' is None, not a tensor"),
    "named_parameters": (lambda: Module().named_parameters(), "dict(...) makes one of pairs"),
    "a number as name": (lambda: {1: W}, "the name 1 is an int: names are texts"),
    "sparse": (lambda: {"w": torch.eye(3).to_sparse()}, "tensor 'w' is torch.sparse_coo: updates"),
    "csr": (lambda: {"w": torch.eye(3).to_sparse_csr()}, "tensor 'w' is torch.sparse_csr: updates"),
    "meta": (lambda: {"w": torch.ones(3, device="meta")}, "device meta: it has no values"),
    "complex": (lambda: {"w": torch.complex(W, W)}, "is torch.complex64: updates are float32"),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("kind", UPDATES)
def test_what_is_no_update(kind: str) -> None:
    make, why = UPDATES[kind]
    assert why in line_of(lambda: compress(SBC, make()), UpdateError)


@pytest.mark.parametrize(
    "method", ["raw", "sbc(0.5)", "rotate(float32)", "flat(cnat)", "lowrank(1)"]
)
def test_negative_views_are_tensors(method: str) -> None:
    view = torch.complex(W, -W).conj().imag
    assert view.is_neg()
    packet = compress(parse(method), {"w": view})[0]
    assert packet.payload == compress(parse(method), {"w": W.clone()})[0].payload


@pytest.mark.parametrize("kind", [memoryview, bytearray])
def test_any_buffer_is_a_payload(kind: Any) -> None:
    assert same_bits(decompress(SBC, kind(PAYLOAD), UPDATE), decompress(SBC, PAYLOAD, UPDATE))


@pytest.mark.parametrize("given", [None, "00ff", 7, [1], compress(SBC, UPDATE)[0]], ids=str)
def test_what_is_no_payload(given: Any) -> None:
    assert line_of(lambda: decompress(SBC, given, UPDATE), PayloadError).startswith(
        "a payload is bytes, not "
    )


def test_what_is_no_like() -> None:
    meta = {"w": torch.empty(4, device="meta")}
    for given in (None, [W], {"w": (4,)}, {"w": np.ones(4)}, meta, Module().named_parameters()):
        said = line_of(lambda g=given: decompress(SBC, PAYLOAD, g), ValueError)
        assert said.startswith("template")


@pytest.mark.parametrize("method", ["sbc(0.5)", "raw", "float32", "rotate(cnat)", "ef(threelc)"])
def test_what_is_decoded_is_float32_whatever_like_is(method: str) -> None:
    """An empty tensor came back in the dtype of ``template``."""
    compressor, update = parse(method), {"none": torch.zeros(0), "w": W}
    payload = compress(compressor, update)[0].payload
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        template = {name: x.to(dtype) for name, x in update.items()}
        assert same_bits(
            decompress(compressor, payload, template), decompress(compressor, payload, update)
        )


METHODS = {
    "a text": ("sbc(0.5)", "not 'sbc(0.5)': parse('sbc(0.5)') makes one"),
    "None": (None, "not None"),
    "a list": ([1], "not [1]"),
    "a class": (c.TopK, "not TopK"),
    "a part": (c.TopK(0.5), "not topk(0.5)"),
    "a codec": (parse("topk(0.5) | float32").codec, ": per_tensor(topk(0.5) | float32 | golomb)"),
}


@pytest.mark.parametrize("kind", METHODS)
def test_what_is_no_compressor(kind: str) -> None:
    given, why = METHODS[kind]
    for call in (lambda: compress(given, UPDATE), lambda: decompress(given, PAYLOAD, UPDATE)):
        said = line_of(call, ValueError)
        assert said.startswith("a compressor is needed, not ") and why in said


def test_what_is_no_text() -> None:
    for given in (None, 5, b"raw", SBC):
        assert "a method's text is needed" in line_of(lambda g=given: parse(g), ValueError)
    for long in ("(" * 100_000, "ef(" * 100_000, "ef(" * 9000, "topk(" + "p=" * 9000):
        line_of(lambda s=long: parse(s), ValueError)
    assert "5000 digits" in line_of(lambda: parse("topk(" + "9" * 5000 + ")"), ValueError)


@pytest.mark.parametrize("method", [*EVERY, "natural_dither(127)"])
def test_a_message_keeps_to_numpys_own_settings(method: str) -> None:
    x = small_update()
    x |= {f"tiny {name}": values * 2.0**-140 for name, values in x.items()}
    expected = compress(parse(method), x)[0].payload
    with np.errstate(all="raise"):
        assert compress(parse(method), x)[0].payload == expected
        decompress(parse(method), expected, x)
        assert np.geterr()["under"] == "raise"


def test_what_is_no_update_fails_alone_among_several() -> None:
    method, good = parse("topk(0.5) | float32 | golomb"), {"w": torch.ones(4)}
    found = compress_all(
        [
            Upload(method, good),
            Upload(method, {"w": [1.0]}),  # type: ignore[dict-item]
            Upload(method, None),  # type: ignore[arg-type]
        ]
    )
    assert [type(one).__name__ for one in found] == ["tuple", "UpdateError", "UpdateError"]
