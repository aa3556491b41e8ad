"""FetchSGD: a sum of count sketches, from which the server takes the largest entries."""

from dataclasses import dataclass

import torch
from torch import Tensor

from compressors import Compressor, Flat, State
from compressors.base import Tensors, nominal_count, scatter, unflatten
from compressors.bits import BitReader
from compressors.contrib.count_sketch import CountSketch
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.algorithms.requirements import (
    Setup,
    Unmet,
    check_weighting,
    fixed_codes,
    no_client_momentum,
)
from strategies.channel.traffic import average

SKETCH = "sketch"


@dataclass(frozen=True)
class Tables(Flat):
    """``flat`` of a count sketch as its server reads it: the table, of which no update is made."""

    codec_id = Flat.codec_id  # the same messages

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        """The table (rows, columns), as ``sketch``; a client finds p n entries in it."""
        assert isinstance(self.codec, CountSketch)
        bits.sent[SKETCH] = nominal_count(self.codec.p, sum(x.numel() for x in template.values()))
        return {SKETCH: self.codec.read_table(bits)}


def sketches(algorithm: object, setup: Setup) -> Unmet | None:
    """A method that sends a count sketch of the whole update."""
    if sketch_of(setup.uplink) is not None:
        return None
    reason = "adds up count sketches of the whole update"
    return Unmet("uplink", reason, "'fetchsgd(0.01, 5, 500)' or another sketch")


@dataclass(frozen=True)
class FetchSGD(Algorithm):
    """Takes the largest entries from a sum of count sketches; what it takes is subtracted there.

        u' = momentum u + mean_k(S_k)
        D = top(U(e + server_lr u'))
        w' = w + D
        e' = e + server_lr u' - S(D)

    Here S_k is the table of client k, the sketch of its update; S sketches and U estimates all
    entries from a table; top leaves the fraction p that the method names, those of the largest
    magnitude; the tables u and e begin as zero. So entries that are small at each client and
    large together are found, and clients need no memory. Clients send updates (n local iterations)
    in the place of the paper's gradients, so that the step is added.

    Args:
        server_lr: the factor on what is added to the memory.
        momentum: 0 <= momentum < 1.
        weighting: of the mean of tables: ``uniform`` (as in the paper) or ``samples``.

    Raises ``ValueError`` for a momentum outside of that, and for another weighting.

    Source: Rothchild et al. 2020 (FetchSGD), Algorithm 1. Its public code sets cells to zero in the
    place of subtracting; here it is as printed.

    Example:
        >>> from compressors import parse
        >>> from strategies import build
        >>> build(FetchSGD(), parse("fetchsgd(0.01)"), clients=4).clients
        4
    """

    adds_codes = True
    requires = (sketches, no_client_momentum, fixed_codes)
    server_lr: float = 1.0
    momentum: float = 0.9
    weighting: str = "uniform"

    def __post_init__(self) -> None:
        check_weighting(self.weighting)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum is {self.momentum}: 0 <= momentum < 1")

    def reads(self, uplink: Compressor) -> Compressor:
        codec = sketch_of(uplink)
        assert codec is not None
        return Tables(codec)

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        codec = sketch_of(info.uplink)
        assert codec is not None
        n = sum(x.numel() for x in model.values())
        mean = self._mean(uplinks)
        before = state or dict.fromkeys(("momentum", "error"), torch.zeros_like(mean))
        momentum = self.momentum * before["momentum"].cpu() + mean
        error = before["error"].cpu() + self.server_lr * momentum
        chosen, values = codec.unsketch(error, n)
        taken = scatter(values, chosen, torch.Size([n]))
        update = {n: x.to(model[n].device) for n, x in unflatten(taken, model).items()}
        return update, {"momentum": momentum, "error": error - codec.sketch(taken)}

    def _mean(self, uplinks: Uplinks) -> Tensor:
        if self.weighting == "samples":
            return average(uplinks, self.weighting)[SKETCH]
        return torch.stack([up.update[SKETCH] for up in uplinks.values()]).mean(0)


def sketch_of(uplink: Compressor) -> CountSketch | None:
    """The count sketch of the whole update that ``uplink`` sends; None where it sends none."""
    codec = uplink.codec if isinstance(uplink, Flat) else None
    return codec if isinstance(codec, CountSketch) else None
