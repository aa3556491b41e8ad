"""MARINA: now and then the gradient as it is, else how it changed from model to model."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from compressors.base import Compressor, Sent, State, Tensors
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, with_memory
from compressors.settings import check_compressor, check_share, plain
from compressors.whole.feedback import check_unbiased
from compressors.whole.memory import check_sums, recall, unnest
from compressors.whole.raw import Raw

BEFORE = "before"
"""In the memory: the gradient at the model of the round before, on the batch of this one."""


@dataclass(frozen=True)
class Marina:
    """Sends a gradient dense, or its difference from that at the model before, compressed.

        c = g(w) with chance p, else Q(g(w) - g(w'))

    w' is the model before w and g the gradient on one batch; a round has one coin for all clients.
    MARINA (Gorbunov, Burlachenko, Li & Richtárik 2021, https://arxiv.org/abs/2102.07845, Algorithm
    1; with batches of samples Algorithm 3, VR-MARINA, whose large batch in dense rounds is a batch
    here). The differences are of one batch at two models, so they shrink with the steps, and their
    noise with them. The receiver adds the mean difference to the gradient that it holds. That, the
    coin of the rounds and the second gradient are the strategy ``marina``'s; every other one
    refuses this method.

    A message is one bit, 1 for dense (no bit for tensors without entries), then ``raw`` or what the
    inner compressor writes. The memory is nothing but what the strategy's client puts there before
    a message: the gradient ``before/NAME``. Without one the message is dense.

    Args:
        inner: an unbiased compressor without a memory of its own.
        p: the probability that a round is dense, 0 < p <= 1; the paper has the share of entries
            that the inner compressor sends.

    Raises ``ValueError`` for another p, and around what is biased or has a memory.

    Example:
        >>> from compressors import compress, parse
        >>> import torch
        >>> method, update = parse("marina(cnat, 0.1)"), {"w": torch.tensor([4.0, 1.0])}
        >>> dense, _ = compress(method, update)
        >>> other, _ = compress(method, update, {"before/w": torch.tensor([3.0, 1.0])})
        >>> dense.sent["w"].decoded, other.sent["w"].decoded
        (tensor([4., 1.]), tensor([1., 0.]))
    """

    codec_id: ClassVar[str] = "marina"
    server: ClassVar[str] = "marina"
    keeps: ClassVar[tuple[str, ...] | None] = (BEFORE,)
    inner: Compressor
    p: float

    def __post_init__(self) -> None:
        plain(self)
        check_compressor("marina", self.inner)
        check_share("marina: p", self.p)
        check_unbiased("marina", self.inner)

    @property
    def needs_seed(self) -> bool:
        return self.inner.needs_seed

    def init(self, template: Tensors) -> State:
        """Nothing: the first message is dense."""
        return {}

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        """See ``Compressor.write``; the gradient before is used up."""
        dense = not unnest(BEFORE, state)
        if _says_something(update):
            with out.span("header"):
                out.uint(int(dense), 1)
        if dense:
            return Raw().write(update, {}, out, seed)
        before = recall(BEFORE, state, {name: x.shape for name, x in update.items()})
        change = {name: (x.detach() - before[name]).contiguous() for name, x in update.items()}
        check_sums(change)
        sent, _ = self.inner.write(change, self.inner.init(update), out, seed)
        return sent, {}

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        """See ``Compressor.read``: the gradient, or the difference."""
        with bits.span("header"):
            dense = bits.uint(int(_says_something(template)))
        return (Raw() if dense else self.inner).read(bits, template, seed)

    def bound_on(self, d: int) -> Bound:
        """The inner compressor's, of the difference."""
        return with_memory(bound(self.inner, d))


def _says_something(template: Tensors) -> bool:
    """Whether an update has entries."""
    return any(x.numel() for x in template.values())
