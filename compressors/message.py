"""Messages: an update to ``bytes`` and back, and where the bits of a message go.

A message is a version (8 bits), a fingerprint of the method and of the tensors'
names and shapes (16 bits), the seed where the method needs one to be read (32
bits), and the tensors' bits without padding; zeros fill the last byte. That is at
most 8 bytes of framing. A payload read with another method or for other tensors
is refused by the fingerprint, up to one chance in 65,536.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from compressors.arguments import (
    aligned,
    check_finite,
    check_method,
    check_update,
    payload_of,
    seed_of,
    state_of,
    template_of,
    update_of,
)
from compressors.base import Compressor, Packet, Received, State, Tensors, finite
from compressors.bits import BitReader, BitWriter, Span
from compressors.device import takes
from compressors.elsewhere import HostedMessage, host_template, is_elsewhere, on_host, placed_like
from compressors.errors import NotFinite, PayloadError
from compressors.grammar import fingerprint, is_foreign, short_text
from compressors.segments.layout import VERSION
from compressors.segments.plan import plan_of
from compressors.segments.read import Decoded, decode, weighted_sum
from compressors.segments.write import encode
from compressors.whole.keepers import check_whose

_NUMPY: Any = {"divide": "warn", "over": "warn", "invalid": "warn", "under": "ignore"}
"""numpy's own defaults: a caller's ``np.seterr`` decides nothing in a message."""


def compress(
    compressor: Compressor, update: Tensors, state: State | None = None, seed: int = 0
) -> tuple[Packet, State]:
    """The message that carries ``update``, and the sender's memory from now on.

    Args:
        compressor: the method.
        update: names to float32 tensors of any shape, all finite; bfloat16 ones are widened.
        state: the memory after the message before; None for the first.
        seed: a whole number, for methods with random choices; reduced to 32 bits. Each
            message needs its own, or all of them make the same choices.

    Raises:
        UpdateError: a tensor is not dense float32, or holds NaN or infinity (named), or does
            so together with the memory; or the memory is of other names or shapes, or another
            method's.
        ValueError: ``compressor`` is not a compressor, or ``seed`` is not a whole number.

    Example:
        >>> from compressors import parse
        >>> packet, state = compress(parse("sbc(0.25)"), {"w": torch.tensor([0.0, 3.0, 1.0, 0.5])})
        >>> decompress(parse("sbc(0.25)"), packet.payload, {"w": torch.empty(4)})
        {'w': tensor([0., 3., 0., 0.])}
    """
    written = encode(compressor, update, state, seed)
    if written is not None:
        return written, written.state
    check_method(compressor)
    update = update_of(update)
    if _plan(compressor, update) is not None:
        return _by_kernels([Upload(compressor, update, state, seed)])[0]
    if is_elsewhere(update) or (state and is_elsewhere(state_of(state))):
        return _by_host(Upload(compressor, update, state, seed))
    check_finite(update)
    before, seed, out = _begun(compressor, update, state, seed)
    with np.errstate(**_NUMPY):
        with out.span("values"):  # what a method does not book itself belongs to values
            sent, after = compressor.write(update, aligned(before), out, seed)
        if is_foreign(compressor):
            check_update(compressor, sent, update)
        for name, tensor in sent.items():
            if tensor.overflows(update[name]):
                raise NotFinite(
                    f"tensor {name!r}: what arrives by {short_text(compressor)} overflows float32"
                )
        payload, spans = out.to_bytes(), out.spans()
    spans["header"] += 8 * len(payload) - sum(spans.values())
    return Packet(payload, sent, spans), after


def _by_host(upload: "Upload") -> tuple[Packet, State]:
    """The message of an update that no kernel takes: the CPU's, with its memory left there."""
    method, update, state, seed = upload
    before = None if state is None else on_host(state_of(state))
    packet, after = compress(method, on_host(update), before, seed)
    hosted = HostedMessage(
        payload=packet.payload, spans=packet.spans, state=after, packet=packet, template=update
    )
    return hosted, after


def _begun(
    compressor: Compressor, update: Tensors, state: State | None, seed: int
) -> tuple[State, int, BitWriter]:
    """The memory before, the seed as it travels, and a message with its header."""
    seed = seed_of(seed)
    before = compressor.init(update) if state is None else state_of(state)
    check_whose(compressor, before)
    out = BitWriter()
    out.uint(VERSION, 8)
    out.uint(fingerprint(compressor, update), 16)
    if compressor.needs_seed:
        out.uint(seed, 32)
    return before, seed, out


class Upload(NamedTuple):
    """The arguments of ``compress``."""

    compressor: Compressor
    update: Tensors
    state: State | None = None
    seed: int = 0


def compress_all(uploads: Sequence[Upload]) -> list[tuple[Packet, State] | Exception]:
    """What ``compress`` returns for each of several updates, or why it failed.

    On a GPU, messages of one method and of tensors of the same names and shapes are made together,
    with the launches of one.

    Example:
        >>> import torch
        >>> from compressors import parse
        >>> method = parse("topk(0.5) | float32 | golomb")
        >>> ones = [Upload(method, {"w": torch.tensor([x, 1.0])}) for x in (2.0, torch.nan)]
        >>> [type(one).__name__ for one in compress_all(ones)]
        ['tuple', 'NotFinite']
    """
    if len(uploads) == 1:
        return _together(uploads)
    alike: dict[Any, list[int]] = {}
    for i, (method, update, *_) in enumerate(uploads):
        try:
            one = method, tuple(update), tuple(x.shape for x in update.values())
            single = _plan(method, update) is None
        except Exception:  # it is not an update, which is told when it is made by itself
            single = True
        alike.setdefault(i if single else one, []).append(i)
    results: dict[int, tuple[Packet, State] | Exception] = {}
    for places in alike.values():
        results |= zip(places, _together([uploads[i] for i in places]), strict=True)
    return [results[i] for i in range(len(uploads))]


def _together(uploads: Sequence[Upload]) -> list[tuple[Packet, State] | Exception]:
    """All of them at once; where that fails, each half by itself, down to the one that fails."""
    try:
        if len(uploads) == 1:
            return [compress(*uploads[0])]
        if _plan(uploads[0].compressor, *(one.update for one in uploads)) is not None:
            plain = [one._replace(update=update_of(one.update)) for one in uploads]
            return [*_by_kernels(plain)]  # else they are too large together
    except Exception as error:
        if len(uploads) == 1:
            return [error]
    # Out of the except clause, which would keep what filled the device.
    half = len(uploads) // 2
    return _together(uploads[:half]) + _together(uploads[half:])


def _by_kernels(uploads: Sequence[Upload]) -> list[tuple[Packet, State]]:
    """Messages of one method and of plain updates alike, made where these lie."""
    from compressors.device.write import Begun, write_messages

    method, begun = uploads[0].compressor, []
    for _, update, state, seed in uploads:
        before, seed, out = _begun(method, update, state, seed)
        begun.append(Begun(dict(update), before, seed, out.to_bytes()))
    with np.errstate(**_NUMPY):
        written = write_messages(method, begun)
    for one in written:
        one.spans["header"] += 8 * len(one.payload) - sum(one.spans.values())
    return [(one, one.state) for one in written]


def _plan(compressor: Any, *updates: Tensors) -> Any:
    """How kernels of a GPU write messages where the updates lie; None where they do not."""
    return plan_of(compressor) if takes(*updates) else None


def receive(compressor: Compressor, payload: bytes, template: Tensors) -> Received:
    """The update in ``payload`` and its bits by span, read in one pass.

    ``template`` gives names, shapes and devices (values unread). Raises ``PayloadError``
    where the payload is cut, has trailing data, was made by another method or for
    other tensors, decodes to NaN or infinity, or is not bytes (a ``memoryview`` is taken), and
    ``ValueError`` where ``template`` is not a mapping of tensors or ``compressor`` not a
    compressor.
    """
    message = read_message(compressor, payload, template)
    update = message.update
    tensors = update.tensors if isinstance(update, Decoded) else dict(update)
    return message._replace(update=tensors)


def read_message(compressor: Compressor, payload: bytes, template: Tensors) -> Received:
    """``receive``, whose update may be ``Decoded``: tensors that are made when one is read."""
    decoded = decode(compressor, payload, template)
    if decoded is not None:
        return decoded
    check_method(compressor)
    template, payload = template_of(template), payload_of(payload)
    with np.errstate(**_NUMPY):
        if _plan(compressor, template) is not None:
            from compressors.device.read import decode_on_device

            decoded = decode_on_device(compressor, payload, template)
            if decoded is not None:
                return decoded
        if is_elsewhere(template):
            read = read_message(compressor, payload, host_template(template))
            return read._replace(update=placed_like(template, read.update))
        bits = BitReader(payload)
        version = bits.uint(8)
        if version != VERSION:
            raise PayloadError(f"message version {version}: this reads version {VERSION}")
        if bits.uint(16) != fingerprint(compressor, template):
            raise PayloadError(
                f"the payload was not made by {short_text(compressor)} for these tensors "
                f"({len(template)}, of {sum(x.numel() for x in template.values())} entries), whose "
                "names, shapes and order count"
            )
        seed = bits.uint(32) if compressor.needs_seed else 0
        with bits.span("values"):
            update = compressor.read(bits, template, seed)
    bits.finish()
    for name, x in update.items():
        if not finite(x):
            raise PayloadError(f"tensor {name!r} decodes to NaN or infinity")
    foreign = _from_outside(compressor)
    all_counts = {n: int(x.count_nonzero()) if foreign else x.numel() for n, x in update.items()}
    counts = {name: bits.sent.get(name, count) for name, count in all_counts.items()}
    return Received(update, bits.spans(), counts)


def _from_outside(method: Any) -> bool:
    """Whether a compressor, or the codec or compressor that it is around, is not the package's."""
    inner = getattr(method, "codec", getattr(method, "inner", None))
    return is_foreign(method) or (inner is not None and _from_outside(inner))


def decompress(compressor: Compressor, payload: bytes, template: Tensors) -> dict[str, Tensor]:
    """The update in ``payload``; ``receive`` returns its bits as well."""
    update = read_message(compressor, payload, template).update
    return update.tensors if isinstance(update, Decoded) else dict(update)


def explain(compressor: Compressor, payload: bytes, template: Tensors) -> dict[Span, int]:
    """Bits of ``payload`` by ``header``, ``positions``, ``values`` and ``side``; they sum to all.

    Raises ``PayloadError`` as ``receive``.
    """
    return receive(compressor, payload, template).spans


def mean_of(
    method: Compressor, payloads: Sequence[bytes], weights: Sequence[float], template: Tensors
) -> Tensor:
    """The weighted mean of the updates in K payloads: float32 (entries,), on the host.

    With weights w_k and updates x_k it is the sum over k of (w_k / sum of w) x_k, in the order of
    the payloads, each product rounded as torch's ``add_`` does. The bits are those of decoding
    every payload and adding the tensors in that order. Only the entries that travelled are
    added, where they are few. One update at a time is decoded, so that memory does not grow with K.

    Source: McMahan et al. 2017 (FedAvg), Algorithm 1, the server's sum with n_k / n.

    Args:
        method: made the payloads.
        payloads: of K messages.
        weights: of each, from 0; they need not sum to 1. Their sum is above 0.
        template: names and shapes of the update's tensors; values are not read.

    Returns:
        The mean of all entries, tensors one after the other in the template's order.

    Raises:
        PayloadError: as ``decompress``, of the first payload that is damaged. A payload is checked
            whole before anything of it is added.
        ValueError: there is no payload, or not one weight for each; a weight is negative or not
            finite, or all are 0; ``method`` or ``template`` is none.

    Example:
        >>> import torch
        >>> from compressors import compress, sbc
        >>> updates = [{"w": torch.tensor(x)} for x in ([0.0, 3.0, 1.0, 0.5], [8.0, 1.0, 0.0, 0.0])]
        >>> payloads = [compress(sbc(0.25), update)[0].payload for update in updates]
        >>> mean_of(sbc(0.25), payloads, [1, 3], updates[0])
        tensor([6.0000, 0.7500, 0.0000, 0.0000])
    """
    shares, tensors = _shares(payloads, weights), host_template(template_of(template))
    updates = (read_message(method, payload, tensors).update for payload in payloads)
    return weighted_sum([*tensors], [x.shape for x in tensors.values()], updates, shares)


def _shares(payloads: Sequence[bytes], weights: Sequence[float]) -> list[float]:
    """The weights over their sum."""
    floats = [float(weight) for weight in weights]
    if not payloads or len(floats) != len(payloads):
        raise ValueError(
            f"weights are {len(floats)} and payloads {len(payloads)}: give one weight for each of "
            "one payload or more"
        )
    for place, weight in enumerate(floats):
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"weights[{place}] is {weight}: it is a finite number from 0")
    total = sum(floats)
    if not 0 < total < math.inf:
        raise ValueError(f"weights sum to {total}: their sum is finite and above 0")
    return [weight / total for weight in floats]
