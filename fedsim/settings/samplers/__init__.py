"""Samplers: what draws the clients of a round, or the next client (``--sampler``)."""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.settings.samplers.base import DrawInfo, Participation, Sampler, SamplerMemory
    from fedsim.settings.samplers.registry import SAMPLERS

__all__ = ["SAMPLERS", "DrawInfo", "Participation", "Sampler", "SamplerMemory"]

make_lazy(__name__)
