"""Updates in files: ``.npy`` (one tensor), ``.pt`` and ``.pth``, ``.safetensors``.

Names keep the order in which the file has them, as the order is part of what a message
means: a dict's own order in ``.pt``; sorted in ``.safetensors``, whose writers sort them.
No file can make its reader run code.
"""

import pickle
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from compressors.base import finite
from fedsim.ground.errors import UsageError
from fedsim.ground.files import replacing

SUFFIXES = (".npy", ".pt", ".pth", ".safetensors")
SINGLE = "update"
"""The name given to a tensor that has none."""


@dataclass(frozen=True)
class TensorFile:
    """What a file holds: names to float32 tensors, contiguous and on the CPU.

    Attributes:
        tensors: in the order of the file.
        bare: one tensor that has no name in the file; here it is called ``update``.
        left_out: names of the integer tensors that were not taken.
    """

    tensors: dict[str, Tensor]
    bare: bool = False
    left_out: tuple[str, ...] = ()


def load_tensors(path: Path | str, as_float32: bool = False, values: bool = True) -> TensorFile:
    """The tensors of a file; the ending of its name says the format.

    Args:
        path: ``.npy``; ``.pt`` or ``.pth`` with a tensor or a dict of tensors (a state dict);
            or ``.safetensors``.
        as_float32: convert tensors of other float types, and leave integer tensors out.
        values: whether the values are wanted: NaN and infinity are then refused.

    Raises:
        UsageError: another ending; a file that is missing, damaged, or a pickle that needs code
            to be run; something that is not a tensor; a tensor (named) that is not float32, that
            holds NaN or infinity, or that is sparse.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_tensors(f"{folder}/x.pt", {"w": torch.ones(3), "b": torch.zeros(1)})
        ...     list(load_tensors(f"{folder}/x.pt").tensors)
        ['w', 'b']
    """
    path = Path(path)
    content = _content(path)
    bare = isinstance(content, Tensor)
    named = {SINGLE: content} if bare else content
    if not isinstance(named, Mapping):
        raise UsageError(
            f"{path} holds {_a(content)}: it must be a tensor or a dict of names to tensors"
        )
    for name, x in named.items():
        if isinstance(x, Mapping) and isinstance(name, str):
            raise UsageError(
                f"{path}: {name!r} is a dict, and names do not nest: save that dict alone"
            )
        if not isinstance(name, str) or not isinstance(x, Tensor):
            what = f"is {_a(x)}" if isinstance(name, str) else f"is {_a(name)} as a name"
            raise UsageError(f"{path}: {name!r} {what}: it must be a dict of names to tensors")
    left_out = _check_types(path, dict(named), as_float32)
    taken = {}
    for name, x in named.items():
        try:
            if name not in left_out:
                taken[name] = x.detach().to(torch.float32).contiguous()
        except (RuntimeError, MemoryError) as error:  # one value may stand for 10^12 entries
            raise UsageError(f"{path}: tensor {name!r} cannot be laid out as float32") from error
    if not taken:
        raise UsageError(f"{path} holds no tensor of floats: there is nothing to send")
    bad = [name for name, x in taken.items() if values and not finite(x)]
    if bad:
        size = " as float32" if named[bad[0]].dtype != torch.float32 else ""
        raise UsageError(f"{path}: tensor {bad[0]!r} holds NaN or infinity{size}")
    return TensorFile(taken, bare, left_out)


def write_tensors(path: Path | str, tensors: Mapping[str, Tensor], bare: bool = False) -> None:
    """Makes or replaces a file of tensors, whole or not at all; its name's ending tells the format.

    ``bare``: a ``.pt`` holds the one tensor itself instead of a dict. Raises ``UsageError`` as
    ``check_output``, and ``OSError`` where the file cannot be written.
    """
    path = Path(path)
    check_output(path, len(tensors))
    # Copies: views of one vector would each be stored with the whole vector.
    copies = {name: x.detach().cpu().contiguous().clone() for name, x in tensors.items()}
    first = next(iter(copies.values()))
    with replacing(path) as file:
        if suffix(path) == ".npy":
            np.save(file, first.numpy())
        elif suffix(path) == ".safetensors":
            file.write(save(copies))
        else:
            torch.save(first if bare else copies, file)


def suffix(path: Path | str) -> str:
    """The ending of a name, in lower case; ``UsageError`` where it is not a format of tensors."""
    ending = Path(path).suffix.lower()
    if ending not in SUFFIXES:
        raise UsageError(
            f"{path} is not a .npy, .pt, .pth or .safetensors file: updates are "
            "float32 tensors in one of these"
        )
    return ending


def check_output(path: Path | str, count: int) -> None:
    """Raises ``UsageError`` where what ``path`` ends in cannot hold ``count`` tensors."""
    if suffix(path) == ".npy" and count != 1:
        raise UsageError(
            f"-o is {path}: a .npy file holds one tensor, and these are {count}: "
            "end the name in .pt or .safetensors"
        )


def _content(path: Path) -> Any:
    """What a file holds, in the format that the ending of its name says; no code in it is run."""
    ending = suffix(path)
    try:
        path.open("rb").close()  # the same message for every format
        if ending == ".safetensors":
            with safe_open(path, framework="pt") as file:
                return {name: file.get_tensor(name) for name in sorted(file.keys())}
        if ending != ".npy":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about how it was pickled, not what it holds
                return torch.load(path, map_location="cpu", weights_only=True)
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # damaged headers raise all sorts, and a pickle can be damaged so
        needs = re.search(r"GLOBAL (\S+)", str(error))
        if isinstance(error, pickle.UnpicklingError) and needs:
            raise UsageError(
                f"{path} needs code to be read ({needs[1]}), and none is run: "
                "save a tensor or a dict of tensors, such as model.state_dict()"
            ) from error
        forms = {".npy": "a .npy file of numbers", ".safetensors": "a .safetensors file"}
        reason = f": {error}" if ending == ".safetensors" else ""
        what = forms.get(ending, "a file of torch.save")
        raise UsageError(f"{path} is not {what}, or is damaged{reason}") from error
    kind = array.dtype if isinstance(array, np.ndarray) else "an archive"
    try:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    except (TypeError, AttributeError) as error:
        raise UsageError(f"{path} is {kind}, not an array of numbers: give float32") from error


def _check_types(path: Path, named: dict[str, Tensor], as_float32: bool) -> tuple[str, ...]:
    """The names of integer tensors, to be left out; other types than float32 are refused."""
    for name, x in named.items():
        if x.layout != torch.strided or x.is_quantized or x.is_complex() or x.is_meta:
            raise UsageError(f"{path}: tensor {name!r} is {_type(x)}: updates are float32")
    integers = tuple(name for name, x in named.items() if not x.is_floating_point())
    if as_float32:
        return integers
    others = [name for name, x in named.items() if x.dtype != torch.float32]
    if others:
        hint = "leaves integers out and converts the rest" if integers else "converts"
        shown = [f"tensor {name!r} is {_type(named[name])}" for name in others[:3]]
        more = f" and {len(others) - 3} more are not" if len(others) > 3 else ""
        raise UsageError(
            f"{path}: {', '.join(shown)}{more}: updates are float32 (--as-float32 {hint})"
        )
    return ()


def _type(x: Tensor) -> str:
    kind = str(x.dtype).removeprefix("torch.")
    if x.layout != torch.strided:
        return f"sparse ({str(x.layout).removeprefix('torch.')})"
    return f"{kind} without values (meta)" if x.is_meta else kind


def _a(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
