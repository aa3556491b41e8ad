"""Majority vote over signs, with one bit per entry in both directions (Bernstein et al. 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compressors import Compressor, Raw, Sign, State, Tensors, derive
from compressors.base import tensor_seed
from compressors.kernels import noise
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.algorithms.requirements import (
    Setup,
    Unmet,
    dense_quantizer,
    fixed_codes,
    without_residuals,
)


def votes(algorithm: object, setup: Setup) -> Unmet | None:
    """Every value that clients send is plus or minus one magnitude."""
    if vote_code(setup.uplink) is not None:
        return None
    reason = "counts votes: every value is plus or minus one magnitude"
    return Unmet("uplink", reason, "a dense sign, such as 'sign(0.001)'")


@dataclass(frozen=True)
class Majority(Algorithm):
    """The sign that most clients sent of each entry, times the magnitude that all of them sent.

        w' = w + m sign(sum_k sign(u_k))

    Here u_k is the decoded update of client k, of which every entry is m or -m. Every client counts
    once. A tie is decided by a fair coin that follows from (seed, round, tensor, entry), so that a
    replay of the payloads decides it equally; the sign of a zero sum, as the paper prints it, would
    be a third value that one bit cannot carry. ``vote_code`` gives the downlink that carries the
    result exactly.

    Source: Bernstein et al. 2019 (signSGD with majority vote), Algorithm 1. Clients vote on their
    updates, where the paper's vote on gradients; m takes the place of its learning rate.

    Example:
        >>> ups = [{"w": torch.tensor(v)} for v in ([0.5, -0.5], [0.5, -0.5], [-0.5, -0.5])]
        >>> vote(ups, seed=0, round_number=1)
        {'w': tensor([ 0.5000, -0.5000])}
    """

    adds_codes = True
    requires = (votes, fixed_codes)

    def default_downlink(self, uplink: Compressor) -> Compressor:
        """The one bit per entry that carries the votes."""
        return vote_code(uplink) or Raw()

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        return vote([up.update for up in uplinks.values()], info.seed, info.number), state


def vote(updates: Sequence[Tensors], seed: int, round_number: int) -> dict[str, Tensor]:
    """The vote of decoded updates, of which there is at least one.

    Raises ``ValueError`` where a client's entries are not plus or minus one magnitude per tensor,
    the same for all clients.
    """
    seed, voted = derive(seed, "vote", round_number), {}
    for i, (name, first) in enumerate(updates[0].items()):
        if first.numel() == 0:
            voted[name] = torch.zeros_like(first)
            continue
        magnitude = first.flatten()[0].abs()
        ahead = torch.zeros(first.shape, dtype=torch.int32, device=first.device)  # contiguous
        for votes in (update[name] for update in updates):
            if not bool((votes.abs() == magnitude).all()) or not magnitude > 0:
                raise ValueError(f"a vote on {name!r} is not plus or minus one magnitude")
            ahead += torch.where(votes > 0, 1, -1)
        flat = ahead.flatten()
        ties = (flat == 0).nonzero().flatten()
        coins = noise.words(tensor_seed(seed, i), ties.numpy()) >> np.uint32(31)
        flat[ties] = 1 - 2 * torch.from_numpy(coins.astype(np.int32))
        voted[name] = torch.where(ahead > 0, magnitude, -magnitude)
    return voted


def vote_code(uplink: Compressor) -> Compressor | None:
    """The downlink that carries the votes of ``uplink`` exactly; None where it sends no votes.

    Votes are a dense ``sign``, with residuals or without: what is decoded is plus or minus the
    same magnitude everywhere. The result needs no residual: nothing of it is lost.

    Example:
        >>> from compressors import parse, text
        >>> text(vote_code(parse("ef(sign(0.5))"))), vote_code(parse("l1_sign"))
        ('per_tensor(sign(0.5))', None)
    """
    return without_residuals(uplink) if isinstance(dense_quantizer(uplink), Sign) else None
