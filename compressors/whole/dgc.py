"""Deep Gradient Compression: top-k with a memory that knows about momentum.

Lin, Han, Mao, Wang & Dally, Deep Gradient Compression: Reducing the Communication Bandwidth
for Distributed Training, ICLR 2018, section 3.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from compressors.arguments import read_tensor, write_tensor
from compressors.base import Sent, SentTensor, State, Tensors, empty_like, nominal_count, read_each
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, with_memory
from compressors.errors import UpdateError
from compressors.kernels.select import MAGNITUDE
from compressors.parts import BasePart
from compressors.quantize.floats import Float32
from compressors.settings import check_number, check_share, check_whole, plain
from compressors.sparsify.topk import largest
from compressors.whole.memory import check_sums, nest, recall
from compressors.whole.pipeline import Pipeline


@dataclass(frozen=True)
class DGC:
    """The fraction ``p`` of each tensor, chosen from momentum-corrected residuals.

        u <- momentum u + g min(1, clip / ||g||),  v <- v + u
        x_hat_i = v_i for i in S, else 0,  S = {the k largest |v_i| > 0}
        u_i <- 0,  v_i <- 0 for i in S

    g is the update, ||g|| the norm of all its tensors, and S is chosen in each (Lin et al. 2018,
    section 3). Values travel as float32 at Golomb-coded positions; the last line is momentum factor
    masking. This is the clients' momentum, so their optimizer has none, and one local step per
    message (n = 1). Updates are weight differences, -lr times the gradient: at a steady learning
    rate u is SGD's momentum buffer times -lr. At p = 1 everything is masked at once: plain SGD.

    Settings, all from the paper:
        warmup: stages in which the share is larger than p: p^((s + 1) / (warmup + 1)) in stage
            s = 0, 1, ... For p = 0.001 and 4 stages 25, 6.3, 1.6 and 0.4 %, as in section 3.3.
        stage: messages a stage; the paper's stages are epochs.
        momentum: the factor on u, in [0, 1).
        clip: bound on the L2 norm of a whole update g, above which g is scaled down to it. The
            paper's bound is its global threshold times N^(-1/2) for N senders: a compressor does
            not know N, so give the product, in units of the update. None: no clipping.

    The receiver does not count messages: k of a warm-up message is in the message.
    Raises ``ValueError`` for a setting outside its range.

    Example:
        >>> from compressors import compress
        >>> dgc = DGC(0.25, warmup=0)
        >>> packet, state = compress(dgc, {"w": torch.tensor([1.0, 0.0, 2.0, 0.0])})
        >>> packet.sent["w"].decoded, state["momentum/w"], state["velocity/w"]
        (tensor([0., 0., 2., 0.]), tensor([1., 0., 0., 0.]), tensor([1., 0., 0., 0.]))
    """

    codec_id: ClassVar[str] = "dgc"
    held: ClassVar[str] = "velocity"
    keeps: ClassVar[tuple[str, ...] | None] = ("momentum", "velocity", "messages")
    p: float
    warmup: int = 4
    momentum: float = 0.9
    clip: float | None = None
    stage: int = 1
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        check_share("dgc: p", self.p)
        check_whole("dgc: warmup", self.warmup, 0)
        check_whole("dgc: stage", self.stage, 1)
        check_number("dgc: momentum", self.momentum, lambda m: 0 <= m < 1, "it lies in [0, 1)")
        if self.clip is not None:
            allowed = "give a number above 0, or none"
            check_number("dgc: clip", self.clip, lambda c: 0 < c < math.inf, allowed)

    def share(self, message: int) -> float:
        """The fraction of entries sent in that message (0, 1, ...) of a sender.

        Example:
            >>> [round(DGC(0.001).share(t), 4) for t in range(6)]
            [0.2512, 0.0631, 0.0158, 0.004, 0.001, 0.001]
        """
        stage = message // self.stage
        if stage >= self.warmup:
            return self.p
        return self.p ** ((stage + 1) / (self.warmup + 1))

    def init(self, template: Tensors) -> State:
        """Zero momentum u and velocity v a tensor, and the number of messages so far."""
        memory = nest("momentum", empty_like(template)) | nest("velocity", empty_like(template))
        return memory | {"messages": torch.zeros((), dtype=torch.int64, device="cpu")}

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        if "messages" not in state:
            raise UpdateError("the memory is not dgc's: it does not hold the number of messages")
        message = int(state["messages"])
        shapes = {name: x.shape for name, x in update.items()}
        momentum, velocity = (recall(kind, state, shapes) for kind in ("momentum", "velocity"))
        pipe = self._pipe(self.share(message))
        scale = 1.0  # takes the whole update's L2 norm to at most ``clip``
        if self.clip is not None:
            squares = (float(x.detach().double().square().sum()) for x in update.values())
            norm = math.sqrt(sum(squares))
            scale = 1.0 if norm <= self.clip else self.clip / norm
        sent: Sent = {}
        after: State = {"messages": torch.tensor(message + 1, device="cpu")}
        for name, x in update.items():
            gradient = x.detach() if scale == 1 else x.detach() * scale
            u = (self.momentum * momentum[name] + gradient).contiguous()
            v = velocity[name] + u
            for sums in (u, v):
                check_sums({name: sums})
            sent[name] = write_tensor(pipe, v, out, seed)
            after[f"momentum/{name}"] = _masked(u, sent[name])
            after[f"velocity/{name}"] = _masked(v, sent[name])
        return sent, after

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        pipe = self._pipe(self.p)
        return read_each(bits, template, lambda i, x: read_tensor(pipe, bits, x, seed))

    def _pipe(self, share: float) -> Pipeline:
        return Pipeline(_Largest(self.p, share), Float32())

    def bound_on(self, d: int) -> Bound:
        """k / d of update plus memory."""
        return with_memory(contraction(nominal_count(self.p, d) / d, "k / d"))


@dataclass(frozen=True)
class _Largest(BasePart):
    """Top-k of a share that only the sender knows: nominal is the share after the warm-up."""

    p: float
    share: float

    def count(self, n: int) -> int:
        return nominal_count(self.p, n)

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        return largest(x, nominal_count(self.share, x.numel()), MAGNITUDE), 1.0


def _masked(memory: Tensor, sent: SentTensor) -> Tensor:
    """The memory, which was made for this message, with zeros where entries were sent."""
    if isinstance(sent.indices, Tensor):
        memory.view(-1)[sent.indices] = 0.0
    return memory
