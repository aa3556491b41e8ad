"""The size of a method's message before anything is trained: one is encoded."""

from functools import lru_cache

import torch

from compressors import Tensors, compress, decompress
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer
from fedsim.search.methods import compressor
from fedsim.settings.config import RunConfig


class Sizes:
    """Messages of one model, by method, fraction and coder.

    The update that is encoded is drawn once, with heavy tails as gradients have them; a trained
    update's message is about as long. Nothing that a search reports is such a size.

    Attributes:
        entries: of the model, trained and frozen.
        rate: the learning rate of the task's optimizer, of its first group of parameters.

    Args:
        base: the runs' settings, of which task, data and rate matter.
    """

    def __init__(self, base: RunConfig) -> None:
        trainer = Trainer(base, ClientData.of(base))
        draws = torch.Generator().manual_seed(0)
        self.update: Tensors = {}
        for name, x in trainer.parameters.items():  # Student's t, three degrees of freedom
            normal = torch.randn(x.shape, generator=draws)
            chi = torch.randn((3, *x.shape), generator=draws).square().mean(0)
            self.update[name] = (normal / chi.sqrt().clamp(min=0.05) * 1e-3).contiguous()
        self.entries = sum(p.numel() for p in trainer.parameters.values())
        self.rate = float(trainer.optimizer.param_groups[0]["lr"])
        self.bits = lru_cache(maxsize=None)(self._bits)

    def _bits(self, method: str, p: float | None, coder: str) -> int:
        """The bits of a first message (wire)."""
        codec = compressor(method, p, coder)
        packet, _ = compress(codec, self.update, codec.init(self.update), seed=0)
        return 8 * len(packet.payload)

    def try_out(self, method: str, p: float | None, coder: str) -> None:
        """Encodes and decodes a message: what that compiles is there for the runs."""
        codec = compressor(method, p, coder)
        packet, _ = compress(codec, self.update, codec.init(self.update), seed=0)
        decompress(codec, packet.payload, self.update)
