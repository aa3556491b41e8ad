"""Checks of what a caller and a user's own part hand over: an error is a line that names it."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from compressors.base import ALL, SentTensor, State, Tensors, VectorCodec, finite
from compressors.bits import BitReader, BitWriter
from compressors.errors import NotFinite, PartError, PayloadError, UpdateError
from compressors.grammar import is_foreign, name_of, plain_text, shown
from compressors.parts import Symbols, code_dtype

PLAIN = (Tensor, Parameter)
"""Classes of tensors whose values lie where they say; a DTensor holds a part of them."""

_ALIGNED = 64
"""Bytes: how torch aligns the memory that it takes. Products of matrices round by alignment."""


def check_method(method: Any) -> None:
    """``ValueError``, which says how to make a compressor of ``method``, unless it is one."""
    if isinstance(method, type) or not (hasattr(method, "init") and hasattr(method, "write")):
        cure = ""
        if isinstance(method, str):
            cure = f": parse({method[:60]!r}) makes one"
        elif hasattr(method, "write") and not isinstance(method, type):
            cure = f": per_tensor({shown(method)}) is one"
        raise ValueError(f"a compressor is needed, not {shown(method)}{cure}")


def update_of(update: Any) -> Tensors:
    """``update`` with views that a kernel cannot read made plain; ``UpdateError`` for no update.

    An update is a mapping of names to dense float32 tensors that have values. bfloat16 tensors are
    taken too: every one of their values is a float32 number.
    """
    tensors = _named(update, "an update", UpdateError)
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            cure = ": torch.from_numpy makes a tensor of it" if isinstance(x, np.ndarray) else ""
            raise UpdateError(f"tensor {name!r} is {_kind(x)}, not a tensor{cure}")
        if type(x) not in PLAIN:
            raise UpdateError(
                f"tensor {name!r} is of the subclass {type(x).__name__}: updates are plain tensors "
                "(full_tensor() makes one of a DTensor)"
            )
        if x.layout != torch.strided or x.is_nested:
            layout = "nested" if x.is_nested else x.layout
            raise UpdateError(f"tensor {name!r} is {layout}: updates are dense (Tensor.to_dense)")
        if x.dtype not in (torch.float32, torch.bfloat16):
            raise UpdateError(f"tensor {name!r} is {x.dtype}: updates are float32")
        if x.is_meta:
            raise UpdateError(f"tensor {name!r} is on the device meta: it has no values")
    if not any(x.is_neg() or x.dtype != torch.float32 for x in tensors.values()):
        return tensors
    return {name: x.resolve_neg().to(torch.float32) for name, x in tensors.items()}


def check_finite(update: Tensors) -> None:
    """``NotFinite``, which names the first tensor that holds NaN or infinity."""
    for name, x in update.items():
        if not finite(x):
            raise NotFinite(f"tensor {name!r} holds NaN or infinity: no message can carry it")


def template_of(template: Any) -> dict[str, Tensor]:
    """``template`` as dense float32, values unread; ``ValueError`` for no template."""
    tensors = _named(template, "template", ValueError)
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise ValueError(
                f"template: {name!r} is {_kind(x)}: give a tensor of the update's shape"
            )
        if x.is_meta:
            raise ValueError(
                f"template: {name!r} is on the device meta: no values can be put there"
            )
    return {
        name: x
        if type(x) in PLAIN and x.dtype == torch.float32 and x.layout == torch.strided
        else torch.empty(x.shape, dtype=torch.float32, device=x.device)
        for name, x in tensors.items()
    }


def state_of(memory: Any) -> State:
    """``memory``, contiguous; ``UpdateError`` unless it is a memory: names to tensors."""
    if not isinstance(memory, Mapping):
        raise UpdateError(f"a memory is what compress returned, or None, not {_kind(memory)}")
    state = {}
    for key, x in _named(memory, "a memory", UpdateError).items():
        if type(x) not in PLAIN or x.layout != torch.strided:
            raise UpdateError(f"the memory's {key!r} is {_kind(x)}, not a dense tensor")
        plain = x.is_contiguous() and not x.is_neg()
        state[key] = x if plain else x.detach().resolve_neg().contiguous()
    return state


def aligned(state: State) -> State:
    """The memory, each tensor of it where torch would have put it.

    What was read from a file or made by numpy may lie anywhere, and the last bits of a product of
    matrices depend on where.
    """
    return {key: x.clone() if x.data_ptr() % _ALIGNED else x for key, x in state.items()}


def payload_of(payload: Any) -> bytes:
    """The bytes of any buffer; ``PayloadError`` for what is not one."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    cure = ": its payload is" if hasattr(payload, "payload") else ""
    raise PayloadError(f"a payload is bytes, not {_kind(payload)}{cure}")


def seed_of(seed: Any) -> int:
    """Any whole number as 32 bits; ``ValueError`` for what is not one."""
    try:
        return index(seed) & 0xFFFFFFFF
    except TypeError:
        raise ValueError(f"seed is {shown(seed)}: give a whole number") from None


def _named(tensors: Any, what: str, error: type[ValueError]) -> Mapping[str, Any]:
    """``tensors`` by plain texts; ``error`` unless it is a mapping whose keys are texts."""
    if not isinstance(tensors, Mapping):
        cure = ": dict(...) makes one of pairs" if hasattr(tensors, "__next__") else ""
        raise error(f"{what} is a dict of names to tensors, not {_kind(tensors)}{cure}")
    for name in tensors:
        if not isinstance(name, str):
            raise error(f"{what}: the name {shown(name)} is {_kind(name)}: names are texts")
    if all(type(name) is str for name in tensors):
        return tensors
    named = {plain_text(name): x for name, x in tensors.items()}  # a subclass may print otherwise
    if len(named) != len(tensors):
        raise error(f"{what}: two names are the same text")
    return named


def _kind(thing: Any) -> str:
    """What a thing is, in a few words."""
    if thing is None:
        return "None"
    if isinstance(thing, Tensor):
        kind = "tensor" if type(thing) in PLAIN else type(thing).__name__
        return f"a {kind} {tuple(thing.shape)}"
    if isinstance(thing, np.ndarray):
        return f"a numpy array {thing.shape} of {thing.dtype}"
    name = type(thing).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def is_own(thing: Any) -> bool:
    """Whether a class from outside this package is in ``thing``, or is its own.

    Example:
        >>> from compressors import parse
        >>> is_own(parse("sbc(0.01)"))
        False
    """
    if isinstance(thing, tuple):
        return any(is_own(part) for part in thing)
    if thing is None or isinstance(thing, str | int | float):
        return False
    if is_foreign(thing) or not is_dataclass(thing):
        return True
    return any(is_own(getattr(thing, f.name)) for f in fields(thing))


def check_selected(part: Any, selected: Any, n: int) -> tuple[Tensor, float]:
    """What ``select`` returned for ``n`` units; ``PartError`` unless it fits ``Sparsifier``."""
    prefix = f"{name(part)}.select returned"
    if not isinstance(selected, tuple) or len(selected) != 2:
        raise PartError(
            f"{prefix} {_shown(selected)}: it returns a pair, the sorted int64 positions (k,) and "
            "the factor on their values"
        )
    positions, scale = selected
    if not isinstance(positions, Tensor) or positions.dtype != torch.int64 or positions.dim() != 1:
        raise PartError(f"{prefix} {_shown(positions)} as positions: they are an int64 tensor (k,)")
    if not positions.is_cpu:
        raise PartError(f"{prefix} positions on {positions.device}: a part works on the CPU")
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise PartError(f"{prefix} {_shown(scale)} as the factor on the values: give a number")
    _check_rising(f"{prefix} positions", positions.numpy(), n)
    return positions, scale


def check_rebuilt(part: Any, rebuilt: Any, n: int) -> np.ndarray:
    """What ``write_positions`` returned; ``PartError`` unless they are positions below ``n``."""
    prefix = f"{name(part)}.write_positions returned"
    if not isinstance(rebuilt, np.ndarray) or rebuilt.dtype != np.int64 or rebuilt.ndim != 1:
        raise PartError(
            f"{prefix} {_shown(rebuilt)}: it returns the int64 array (k,) of the positions that "
            "the receiver will rebuild"
        )
    _check_rising(f"{prefix} positions", rebuilt, n)
    return rebuilt


def _check_rising(prefix: str, positions: np.ndarray, n: int) -> None:
    in_range = positions.size == 0 or (positions[0] >= 0 and positions[-1] < n)
    if not in_range or not bool((positions[1:] > positions[:-1]).all()):
        raise PartError(f"{prefix} that do not rise from entry 0 to entry {n - 1}")


def check_count(part: Any, count: Any, n: int) -> int:
    """What ``count`` returned for ``n`` units; ``PartError`` unless it is a number of units."""
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= n:
        raise PartError(f"{name(part)}.count({n}) returned {count!r}: give an int from 0 to {n}")
    return count


def check_symbols(part: Any, symbols: Any, k: int) -> Symbols:
    """What ``quantize`` made of ``k`` values; ``PartError`` unless it fits ``Symbols``."""
    prefix = f"{name(part)}.quantize returned"
    if not isinstance(symbols, Symbols):
        raise PartError(f"{prefix} {_shown(symbols)}: it returns Symbols(codes, alphabet, side)")
    codes, alphabet = symbols.codes, symbols.alphabet
    if isinstance(alphabet, bool) or not isinstance(alphabet, int) or not 0 < alphabet <= 1 << 32:
        raise PartError(f"{prefix} the alphabet {alphabet!r}: give an int from 1 to 2**32")
    dtype = code_dtype(alphabet)
    if not isinstance(codes, Tensor) or codes.dtype != dtype or codes.shape != (k,):
        raise PartError(
            f"{prefix} {_shown(codes)} as codes of {k} values: with an alphabet of {alphabet} they "
            f"are a {dtype} tensor ({k},), see code_dtype"
        )
    if not codes.is_cpu:
        raise PartError(f"{prefix} codes on {codes.device}: a part works on the CPU")
    unsigned = codes.long() & 0xFFFFFFFF if dtype == torch.int32 else codes.long()
    if k and not 0 <= int(unsigned.min()) <= int(unsigned.max()) < alphabet:
        raise PartError(
            f"{prefix} codes from {int(unsigned.min())} to {int(unsigned.max())}: with an alphabet "
            f"of {alphabet} they lie from 0 to {alphabet - 1}"
        )
    return symbols


def check_values(part: Any, values: Any, k: int) -> Tensor:
    """What ``dequantize`` returned; ``PartError`` unless it is ``k`` float32 values."""
    if not isinstance(values, Tensor) or values.dtype != torch.float32 or values.shape != (k,):
        raise PartError(
            f"{name(part)}.dequantize returned {_shown(values)}: it returns a float32 tensor ({k},)"
        )
    return values


def write_tensor(codec: VectorCodec, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
    """``codec.write``; a tensor without entries takes no bits, and no codec sees it.

    Raises ``PartError`` where a codec of a user's own says something odd of ``x``.
    """
    if x.numel() == 0:
        return SentTensor(torch.zeros_like(x), ALL, x.shape)
    sent = codec.write(x, out, seed)
    if is_foreign(codec):
        check_sent(f"{name(codec)}.write returned", sent, x)
    return sent


def read_tensor(codec: VectorCodec, bits: BitReader, template: Tensor, seed: int) -> Tensor:
    """The tensor that ``write_tensor`` wrote, shaped like ``template``."""
    return codec.read(bits, template, seed) if template.numel() else torch.zeros_like(template)


def check_update(compressor: Any, sent: Any, update: Tensors) -> None:
    """``PartError`` where a compressor of a user's own says something odd of ``update``."""
    prefix = f"{name(compressor)}.write returned"
    if not isinstance(sent, dict) or list(sent) != list(update):
        what = f"the tensors {list(sent)}" if isinstance(sent, dict) else _shown(sent)
        raise PartError(f"{prefix} {what}: what is sent is a dict with the tensors {list(update)}")
    for key, x in update.items():
        check_sent(f"tensor {key!r}: {prefix}", sent[key], x)


def check_sent(prefix: str, sent: Any, x: Tensor) -> None:
    """``PartError``, with ``prefix`` first, unless ``sent`` has what travelled of ``x``."""
    if not isinstance(sent, SentTensor):
        raise PartError(f"{prefix} {_shown(sent)}: it returns a SentTensor")
    values, indices = sent.values, sent.indices
    if not isinstance(values, Tensor) or values.dtype != torch.float32:
        raise PartError(f"{prefix} {_shown(values)} as values: they are a float32 tensor")
    if tuple(sent.shape) != tuple(x.shape):
        raise PartError(f"{prefix} a shape of {tuple(sent.shape)} for a tensor {tuple(x.shape)}")
    if not isinstance(indices, Tensor):
        if values.shape != x.shape:
            raise PartError(
                f"{prefix} {_shown(values)} as all entries of a tensor {tuple(x.shape)}: where "
                "indices is ALL the values have its shape"
            )
        return
    if indices.dtype != torch.int64 or indices.dim() != 1 or values.shape != indices.shape:
        raise PartError(
            f"{prefix} {_shown(indices)} as indices of {_shown(values)}: they are an int64 tensor "
            "(k,) for values (k,), or ALL"
        )
    _check_rising(f"{prefix} indices", indices.numpy(), x.numel())


def name(part: Any) -> str:
    """The name of a part in the catalogue, or of its class where it is not in it."""
    try:
        return name_of(part)
    except ValueError:
        return type(part).__name__


def _shown(thing: Any) -> str:
    """What was handed over, in a few words: a tensor by its dtype and shape."""
    if isinstance(thing, Tensor):
        return f"a {thing.dtype} tensor {tuple(thing.shape)}"
    if isinstance(thing, np.ndarray):
        return f"a numpy array {thing.shape} of {thing.dtype}"
    if isinstance(thing, tuple):
        return f"a tuple of {len(thing)}"
    plain = thing is None or isinstance(thing, int | float | str)
    return repr(thing) if plain else f"a {type(thing).__name__}"
