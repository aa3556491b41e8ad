"""Inputs for the compressor tests, written once: updates, runs of updates, and their facts."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from compressors import ROWS, State, Tensors, decompress, parse
from compressors.kernels.noise import words

EXTRA = (
    "sbc(0.001)",
    "sbc(0.5)",
    "sbc(1)",
    "gradient_dropping(0.1, scope=model)",
    "one_sided(0.3) | float32 | golomb",
    "flat(one_sided(0.2) | mean | golomb)",
    "ef(by_name('size<8', raw, '*', topk(0.5) | float32))",
)
METHODS = tuple(dict.fromkeys([row.example for row in ROWS] + list(EXTRA)))
"""Every row of the catalogue by its example, and a few more texts."""

DEVICES = (
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    ),
)

_NAMES = st.text("abcw.é_ 0", min_size=1, max_size=6)
_SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
# Up to 2**60: three rounds of residuals stay far from float32's largest value.
_FLOATS = st.floats(-(2.0**60), 2.0**60, width=32)
_WHOLE = st.integers(-3, 3).map(float)


@st.composite
def runs(draw: st.DrawFn, rounds: int = 3) -> list[dict[str, Tensor]]:
    """Updates of one sender: same names and shapes; floats, or small whole numbers with ties."""
    shapes = draw(st.dictionaries(_NAMES, _SHAPES, max_size=4))
    values = draw(st.sampled_from((_FLOATS, _WHOLE)))

    def one() -> dict[str, Tensor]:
        arrays = {n: draw(hnp.arrays(np.float32, s, elements=values)) for n, s in shapes.items()}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    return [one() for _ in range(rounds)]


def updates() -> st.SearchStrategy[dict[str, Tensor]]:
    """One update of up to four tensors; scalars, empty tensors and the empty update among them."""
    return runs(rounds=1).map(lambda many: many[0])


def whole_numbers(count: int, salt: int, bits: int = 12) -> Tensor:
    """``count`` float32 whole numbers below 2**bits in magnitude, from integer arithmetic alone.

    No random generator: the values are the same with every version of every library.
    """
    mixed = [(i * 2654435761 + salt * 40503 + 12345) % (1 << 32) for i in range(1, count + 1)]
    return torch.tensor([float((m >> 7) % (1 << bits + 1)) - (1 << bits) for m in mixed])


def small_update(salt: int = 0) -> dict[str, Tensor]:
    """A fixed update of 87 entries in four tensors, one of them scalar and one empty."""
    return {
        "conv": whole_numbers(80, salt + 1).reshape(4, 5, 4) / 64,
        "bias": whole_numbers(6, salt + 2) / 64,
        "none": torch.zeros(3, 0),
        "scale": whole_numbers(1, salt + 3).reshape(()) / 64,
    }


def moved(update: Tensors, device: str) -> dict[str, Tensor]:
    """The update on another device."""
    return {name: x.to(device) for name, x in update.items()}


def bits_of(x: Tensor) -> np.ndarray:
    """The IEEE bits, so that -0.0 differs from 0.0."""
    assert x.dtype == torch.float32
    return x.detach().cpu().contiguous().numpy().view(np.uint32)


def to_bits(payload: bytes) -> str:
    """A payload as a text of zeros and ones."""
    return "".join(f"{byte:08b}" for byte in payload)


def from_bits(bits: str) -> bytes:
    """The payload of a text of zeros and ones (spaces count for nothing), zeros at its end."""
    bits = bits.replace(" ", "")
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def same_bits(a: Tensors, b: Tensors) -> bool:
    """Whether two updates have equal names in equal order, shapes, devices and bits."""
    return list(a) == list(b) and all(
        a[n].shape == b[n].shape
        and a[n].device == b[n].device
        and a[n].dtype == b[n].dtype
        and torch.equal(_as_whole(a[n]), _as_whole(b[n]))
        for n in a
    )


def _as_whole(x: Tensor) -> Tensor:
    """Whole numbers as they are (counters in a memory), floats by their bits."""
    x = x.detach().cpu().contiguous()
    whole = torch.int64 if x.dtype == torch.float64 else torch.int32
    return x.view(whole) if x.is_floating_point() else x


def residual(state: State, name: str, template: Tensor) -> Tensor:
    """What the memory keeps of tensor ``name``: zero where the method keeps nothing of it."""
    kept = [x for key, x in state.items() if f"/{key}".endswith(f"/residual/{name}")]
    return kept[0].to(template.device) if kept else torch.zeros_like(template)


def decoded(method: str, payload: bytes, template: Tensors) -> dict[str, Tensor]:
    """What a receiver that knows the method's text makes of a payload."""
    return decompress(parse(method), payload, template)


def uniform(n: int, k: int, seed: int = 0) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).choice(n, k, replace=False)).astype(np.int64)


def matrix(rows: int, columns: int, p: float, seed: int = 0) -> np.ndarray:
    """Positions in a matrix whose rows and columns send log-normally unlike amounts."""
    rng = np.random.default_rng(seed)
    rate = np.exp(rng.normal(size=(rows, 1)) + rng.normal(size=(1, columns)))
    sent = rng.random((rows, columns)) < rate * p / rate.mean()
    return np.flatnonzero(sent)


def smallest_words(n: int, k: int, seed: int) -> list[int]:
    """The k places with the smallest noise words, ties to the lowest place."""
    places = np.arange(n)
    return sorted(np.lexsort((places, words(seed, places)))[:k].tolist())
