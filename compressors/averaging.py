"""Means of messages: added up on the host as they are decoded, without an update per message."""

import math
from collections.abc import Sequence

from torch import Tensor

from compressors.arguments import template_of
from compressors.base import Compressor, Tensors
from compressors.elsewhere import host_template
from compressors.message import read_message
from compressors.segments.read import weighted_sum


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
