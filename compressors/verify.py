"""Tries a method before anybody trains with it: what the receiver decodes is what was sent.

The suite of this package asks more of its own methods; this asks of any method what a wrong
bit count, a wrong model or a crash would follow from.
"""

import math
import pickle
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.arguments import check_update
from compressors.base import Compressor, Packet, State, Tensors, VectorCodec
from compressors.errors import PartError, PayloadError, UpdateError
from compressors.grammar import text
from compressors.message import compress, decompress, explain
from compressors.parsing import parse
from compressors.usercode import located, user_code
from compressors.whole.lift import PerTensor

_CUTS = 16  # of a payload: at even distances


def check_decoded(compressor: Compressor, packet: Packet, template: Tensors) -> None:
    """Raises ``PartError`` unless the payload decodes to ``packet.sent``, bit for bit.

    The sender of a message does not decode it: its memory and its momentum follow the return value
    of ``write``. ``template`` gives names, shapes and devices (values unread).

    Example:
        >>> method, update = parse("sbc(0.5)"), {"w": torch.tensor([1.0, 0.0, 3.0])}
        >>> check_decoded(method, compress(method, update)[0], update)
    """
    method = f"method {text(compressor)!r}"
    try:
        got = decompress(compressor, packet.payload, template)
    except PayloadError as error:
        raise PartError(f"{method}: its own message cannot be decoded: {error}") from error
    except (TypeError, ValueError, RuntimeError, LookupError, AttributeError) as error:
        raise PartError(f"{method}: its own message cannot be decoded: {located(error)}") from error
    if list(got) != list(packet.sent):
        raise PartError(f"{method}: decoding gives the tensors {list(got)}, not {list(template)}")
    for key, one in packet.sent.items():
        a, b = got[key], one.decoded
        equal = (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
        if not (equal and torch.equal(*(x.contiguous().view(torch.int32) for x in (a, b)))):
            raise PartError(
                f"{method}: tensor {key!r}: decoding its message does not give what write() said "
                "was sent"
            )


def check_draws(compressor: Compressor, update: Tensors) -> None:
    """Raises ``PartError`` where a message of ``update``, or reading it, moves a global generator.

    Its bytes would depend on what others drew before: a method draws from the seed that it is
    given. Looked at are torch's generator of the CPU, numpy's and Python's. Errors of the method
    are left to whoever sends with it.

    Example:
        >>> check_draws(parse("topk(0.5) | dither(7)"), {"w": torch.tensor([1.0, 0.0, 3.0])})
    """
    before = _generator_states()
    try:
        with user_code():
            packet, _ = compress(compressor, update, seed=1)
            decompress(compressor, packet.payload, update)
    except Exception:
        return
    for name, state in _generator_states().items():
        if state != before[name]:
            raise PartError(
                f"method {text(compressor)!r}: it draws from the global generator of {name}, so "
                "that its messages depend on what was drawn before; draw from the seed that is "
                "given: torch.Generator().manual_seed(seed)"
            )


def _generator_states() -> dict[str, bytes]:
    """What the global generators hold."""
    return {
        "torch": torch.default_generator.get_state().numpy().tobytes(),
        "numpy": pickle.dumps(np.random.get_state()),  # noqa: NPY002 - users draw from it
        "Python's random": repr(random.getstate()).encode(),
    }


def verify(method: str | Compressor | VectorCodec) -> None:
    """Tests ``method`` on small and large updates; returns nothing if all is well.

    For every message (random values, equal values, zeros, one entry, a scalar, nothing at all, a
    large tensor, three in a row with the memory) it asks: does the payload decode to what ``write``
    said was sent, bit for bit; is every bit read; does what carries entries take bits outside the
    header; are the update and the memory left as they were; does the same seed give the same bytes;
    and is a payload that is cut refused with ``PayloadError``. Parts that are not this package's
    own are checked on the way: positions that rise, codes below their alphabet, the dtypes of their
    contracts.

    Args:
        method: a text, a compressor or a codec of one tensor, with all its parts in ``CATALOGUE``.

    Raises:
        ValueError: the method cannot be made, or breaks its contract; the message names the
            method, the update, and where it can the part and the tensor.

    Example:
        >>> verify("topk(0.1) | dither(7) | golomb")
        >>> verify("ef(per_tensor(one_sided(0.01) | mean | golomb))")
    """
    codec: Any = parse(method) if isinstance(method, str) else method
    compressor: Compressor = codec if hasattr(codec, "init") else PerTensor(codec)
    if parse(text(compressor)) != compressor:
        raise PartError(f"verify: the text {text(compressor)!r} does not mean {compressor!r}")
    for title, update in _updates().items():
        try:
            _messages(compressor, update)
        except (PartError, PayloadError, UpdateError) as error:
            raise PartError(f"verify {text(compressor)!r}: {title}: {error}") from error
        except (TypeError, ValueError, RuntimeError, LookupError, AttributeError) as error:
            raise PartError(f"verify {text(compressor)!r}: {title}: {located(error)}") from error


def _updates() -> dict[str, dict[str, Tensor]]:
    """Updates with what methods stumble over, by title."""
    drawn, new = np.random.default_rng(0), torch.from_numpy

    def normal(*shape: int) -> Tensor:
        return new(drawn.standard_normal(shape, np.float32))

    edges = {
        "zeros": np.zeros(40),
        "one entry": np.full(1, -2.5),
        "scalar": np.array(1.5),
        "one zero": np.zeros(1),
        "empty": np.zeros(0),
        "empty matrix": np.zeros((3, 0)),
        "equal entries": np.full((5, 8), -2.0),
        "few entries": np.eye(40)[7],
    }
    special = {title: new(x.astype(np.float32)) for title, x in edges.items()}
    vector = normal(7)
    return {
        "random values": {"matrix": normal(30, 64), "vector": vector},
        **{title: {"w": x} for title, x in special.items()},
        "all of these in one message": {"vector": vector, **special},
        "a large tensor": {"w": normal(300_000)},
        "no tensors": {},
    }


def _messages(compressor: Compressor, update: Tensors) -> None:
    """Three messages of one sender: each decoded, and the first also cut."""
    state: State | None = None
    unread = {key: torch.full_like(x, math.nan) for key, x in update.items()}
    for seed in range(3):
        copies = {key: x.clone() for key, x in update.items()}
        memory = {key: x.clone() for key, x in (state or {}).items()}
        packet, after = compress(compressor, update, state, seed)
        check_update(compressor, packet.sent, update)
        check_decoded(compressor, packet, unread)
        booked, content = packet.spans, sum(packet.spans.values()) - packet.spans["header"]
        read = explain(compressor, packet.payload, unread)
        if read != booked:
            raise PartError(f"the writer books {booked}, the reader {read}: open the same spans")
        if not content and any(one.count for one in packet.sent.values()):
            raise PartError("entries are said to be sent, and no bit but the header's is written")
        if not _unchanged(copies, update) or not _unchanged(memory, state or {}):
            raise PartError("write() changes the update or the memory that it is given")
        if compress(compressor, update, state, seed)[0].payload != packet.payload:
            raise PartError("the same update, memory and seed give other bytes the second time")
        if seed == 0:
            size = len(packet.payload)
            for cut in range(0, size, max(1, size // _CUTS)):
                words = f"a payload cut to {cut} of {size} bytes"
                try:
                    decompress(compressor, packet.payload[:cut], update)
                except PayloadError:
                    continue
                except Exception as error:
                    raised = type(error).__name__
                    raise PartError(f"{words} raises {raised}, not PayloadError") from error
                raise PartError(f"{words} is decoded as if it were whole")
        state = after


def _unchanged(before: Tensors, after: Tensors) -> bool:
    return list(before) == list(after) and all(torch.equal(x, after[k]) for k, x in before.items())
