"""Published methods as functions: ``sbc(0.01)`` is what ``parse("sbc(0.01)")`` is."""

from collections.abc import Callable
from functools import partial

from compressors.base import Compressor
from compressors.parsing.grammar import instance_of

_Method = Callable[..., Compressor]

sbc: _Method = partial(instance_of, "sbc")
"""Sparse Binary Compression of a fraction ``p`` of each tensor."""

stc: _Method = partial(instance_of, "stc")
"""Sparse ternary compression of a fraction ``p`` of each tensor."""

ef_sign: _Method = partial(instance_of, "ef_sign")
"""Signs and mean magnitudes with error feedback; no settings."""

powersgd: _Method = partial(instance_of, "powersgd")
"""Low rank with error feedback, of a ``rank``."""

structured_mask: _Method = partial(instance_of, "structured_mask")
"""A random fraction ``p`` of each tensor."""

sketched: _Method = partial(instance_of, "sketched")
"""Rotated, a random fraction ``p``, ``bits`` for each entry."""

q_sparse: _Method = partial(instance_of, "q_sparse")
"""The largest fraction ``p``, then QSGD of ``levels``."""

topk_cnat: _Method = partial(instance_of, "topk_cnat")
"""The largest fraction ``p``, then natural compression."""

skcompress: _Method = partial(instance_of, "skcompress")
"""The largest fraction ``p``, quantile ``buckets`` and delta keys."""
