"""Tensors in files: what comes back, in which order, and what is refused without a trace."""

import collections
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fedsim import UsageError
from fedsim.measure.tensorfiles import load_tensors, write_tensors

UNSORTED = {"weight": torch.arange(6.0).view(2, 3), "bias": torch.tensor(-1.5)}
"""Names in a model's order, which is not the alphabet's; one scalar."""


class Custom:
    """What no pickle of weights may hold."""


def same(tensors: dict[str, Tensor], wanted: dict[str, Tensor]) -> bool:
    return list(tensors) == list(wanted) and all(torch.equal(tensors[n], wanted[n]) for n in wanted)


@pytest.mark.parametrize("ending", [".pt", ".pth", ".PT"])
def test_a_state_dict_keeps_its_order(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{ending}"
    write_tensors(path, UNSORTED)
    content = load_tensors(path)
    assert same(content.tensors, UNSORTED) and not content.bare and content.left_out == ()
    assert same(torch.load(path, weights_only=True), UNSORTED)


def test_safetensors_are_sorted(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, UNSORTED)
    by_name = {name: UNSORTED[name] for name in ("bias", "weight")}
    assert same(load_tensors(path).tensors, by_name)
    assert same(dict(sorted(load_file(path).items())), by_name)  # as others read it
    # by name, not by where they lie: wider types come first in the file
    save_file({"b": torch.ones(2, dtype=torch.float64), "a": torch.ones(2)}, path)
    assert list(load_tensors(path, as_float32=True).tensors) == ["a", "b"]


@pytest.mark.parametrize("ending", [".npy", ".pt"])
def test_one_tensor_without_a_name(ending: str, tmp_path: Path) -> None:
    path, x = tmp_path / f"x{ending}", torch.arange(6.0).view(3, 2)
    write_tensors(path, {"update": x}, bare=True)
    content = load_tensors(path)
    assert same(content.tensors, {"update": x}) and content.bare
    own = np.load(path) if ending == ".npy" else torch.load(path, weights_only=True).numpy()
    assert own.dtype == np.float32 and (own == x.numpy()).all()


def test_a_named_tensor_alone_stays_in_its_dict(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x.pt", {"update": torch.ones(2)})
    assert isinstance(torch.load(tmp_path / "x.pt", weights_only=True), dict)
    assert not load_tensors(tmp_path / "x.pt").bare


def test_parts_of_one_vector_are_stored_alone(tmp_path: Path) -> None:
    """As a method over the whole update decodes them: a view each."""
    parts = dict(zip("ab", torch.arange(100_000.0).split([10, 99_990]), strict=True))
    for ending in (".pt", ".safetensors"):
        path = tmp_path / f"x{ending}"
        write_tensors(path, {"a": parts["a"]})
        assert path.stat().st_size < 4000
        write_tensors(path, parts)
        assert same(load_tensors(path).tensors, parts)


def test_what_is_read_is_laid_out_plainly(tmp_path: Path) -> None:
    """Parameters, channels-last, expanded, Fortran order, big-endian: the same numbers."""
    x = torch.arange(48.0).view(2, 3, 2, 4)
    made = {
        "parameter": nn.Parameter(x),
        "last": x.to(memory_format=torch.channels_last),
        "wide": torch.ones(1).expand(5),
    }
    torch.save(collections.OrderedDict(made), tmp_path / "x.pt")
    tensors = load_tensors(tmp_path / "x.pt").tensors
    assert all(
        type(t) is Tensor and t.is_contiguous() and not t.requires_grad for t in tensors.values()
    )
    assert same(tensors, {name: t.detach() for name, t in made.items()})
    for array in (np.asfortranarray(x.numpy()), x.numpy().astype(">f4")):
        np.save(tmp_path / "x.npy", array)
        tensor = load_tensors(tmp_path / "x.npy").tensors["update"]
        assert tensor.is_contiguous() and torch.equal(tensor, x)


MIXED = {
    "half": torch.ones(2, dtype=torch.float16),
    "full": torch.ones(3),
    "brain": torch.full((2,), 0.5, dtype=torch.bfloat16),
    "tracked": torch.tensor(7),
    "mask": torch.ones(2, dtype=torch.bool),
    "wide": torch.full((2,), 0.1, dtype=torch.float64),
}


@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
def test_as_float32(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{ending}"
    torch.save(MIXED, path) if ending == ".pt" else save_file(MIXED, path)
    with pytest.raises(UsageError, match="--as-float32 leaves integers out"):
        load_tensors(path)
    content = load_tensors(path, as_float32=True)
    assert set(content.left_out) == {"tracked", "mask"}
    assert set(content.tensors) == {"half", "full", "brain", "wide"}
    assert all(x.dtype == torch.float32 for x in content.tensors.values())
    assert content.tensors["wide"][0] == torch.tensor(0.1) and content.tensors["brain"][1] == 0.5


def save(thing: Any) -> Callable[[Path], object]:
    return lambda path: torch.save(thing, path)


def numpy(thing: Any) -> Callable[[Path], object]:
    return lambda path: np.save(path, thing)


def content(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def cut(path: Path) -> None:
    write_tensors(path, UNSORTED if path.suffix != ".npy" else {"update": torch.ones(50)})
    path.write_bytes(path.read_bytes()[:-40])


def huge(path: Path) -> None:
    """A header that claims ten million million entries."""
    with path.open("wb") as file:
        shape = {"descr": "<f4", "fortran_order": False, "shape": (10**13,)}
        np.lib.format.write_array_header_1_0(file, shape)


ONE = torch.ones(1)
BAD: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "cut.npy": (cut, ["not a .npy file", "damaged"]),
    "cut.pt": (cut, ["not a file of torch.save", "damaged"]),
    "cut.safetensors": (cut, ["not a .safetensors file", "damaged"]),
    "huge.npy": (huge, ["not a .npy file", "damaged"]),
    "empty.npy": (content(b""), ["not a .npy file"]),
    "empty.pth": (content(b""), ["not a file of torch.save"]),
    "empty.safetensors": (content(b""), ["not a .safetensors file"]),
    "text.pt": (content(b"hello there"), ["not a file of torch.save"]),
    "text.safetensors": (content(b"hello there all"), ["not a .safetensors file"]),
    "zip.npy": (content(b"PK\3\4" + bytes(50)), ["not a .npy file"]),
    "x.txt": (content(b"1 2 3"), [".npy, .pt, .pth or .safetensors"]),
    "x": (content(b"1 2 3"), [".npy, .pt, .pth or .safetensors"]),
    "folder.pt": (Path.mkdir, ["cannot be read", "directory"]),
    "none.pt": (lambda path: None, ["cannot be read", "No such file"]),
    "none.safetensors": (lambda path: None, ["cannot be read", "No such file"]),
    "code.pt": (save(Custom()), ["needs code", "Custom", "state_dict()"]),
    "model.pt": (save(nn.Linear(2, 2)), ["needs code", "Linear"]),
    "array.pt": (save(np.ones(2)), ["needs code", "numpy"]),
    "nested.pt": (save({"model": {"w": ONE}, "epoch": 3}), ["'model' is a dict", "nest"]),
    "number.pt": (save({"w": ONE, "epoch": 3}), ["'epoch' is a int", "names to tensors"]),
    "none_in.pt": (save({"w": ONE, "grad": None}), ["'grad' is None"]),
    "key.pt": (save({0: ONE}), ["0 is a int as a name"]),
    "list.pt": (save([ONE]), ["holds a list"]),
    "nothing.pt": (save({}), ["no tensor"]),
    "integers.npy": (numpy(np.arange(3)), ["'update' is int64", "float32", "--as-float32"]),
    "half.npy": (numpy(np.ones(3, "float16")), ["'update' is float16", "--as-float32 converts"]),
    "half.pt": (save({"a": ONE, "b": ONE.half()}), ["'b' is float16", "--as-float32 converts"]),
    "four.pt": (save({n: ONE.double() for n in "abcd"}), ["'c' is float64 and 1 more"]),
    "complex.npy": (numpy(np.ones(3, "complex64")), ["complex64", "float32"]),
    "words.npy": (numpy(np.array(["a"])), ["<U1", "float32"]),
    "struct.npy": (numpy(np.zeros(2, [("a", "f4")])), ["float32"]),
    "sparse.pt": (save({"s": torch.eye(3).to_sparse()}), ["'s' is sparse"]),
    "meta.pt": (save({"m": torch.empty(3, device="meta")}), ["'m'", "meta"]),
    "wide.pt": (save({"w": ONE.expand(10**14)}), ["'w' cannot be laid out"]),
    "nan.pt": (save({"a": ONE, "n": ONE * torch.nan}), ["'n' holds NaN or infinity"]),
    "inf.npy": (numpy(np.array([1, -np.inf], "float32")), ["'update' holds NaN or infinity"]),
}


@pytest.mark.parametrize(("name", "make", "words"), [(n, *c) for n, c in BAD.items()], ids=BAD)
def test_refused(
    name: str, make: Callable[[Path], object], words: list[str], tmp_path: Path
) -> None:
    make(tmp_path / name)
    with pytest.raises(UsageError) as refused:
        load_tensors(tmp_path / name)
    for word in (name, *words):
        assert word in str(refused.value)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_values_of_a_template_do_not_matter(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([np.nan], "float32"))
    assert load_tensors(tmp_path / "x.npy", values=False).tensors["update"].shape == (1,)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"old")
    with pytest.raises(UsageError, match="holds one tensor, and these are 2"):
        write_tensors(path, UNSORTED)
    with pytest.raises(UsageError, match="is not a .npy"):
        write_tensors(tmp_path / "x.bin", UNSORTED)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.arange(3), "no tensor of floats"),
        (np.array([1e300]), "'update' holds NaN or infinity as float32"),
    ],
    ids=["integers", "too great"],
)
def test_what_no_float32_can_be_of(array: np.ndarray, words: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(UsageError, match=words):
        load_tensors(tmp_path / "x.npy", as_float32=True)
