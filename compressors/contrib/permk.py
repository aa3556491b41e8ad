"""Perm-K: every client sends a share of the entries of its own, and together they send all."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import Sent, State, Tensors
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, unbiased
from compressors.errors import PayloadError, UpdateError
from compressors.kernels.noise import words
from compressors.quantize.floats import Float32
from compressors.settings import check_whole, plain
from compressors.whole.lift import Flat
from compressors.whole.memory import unnest
from compressors.whole.pipeline import Pipeline

TURN = "turn"
"""In the memory: the round's seed and the client's number, two whole numbers."""


@dataclass(frozen=True)
class _Part:
    """The entries that stand at one of ``parts`` stretches of an order drawn by the seed ``turn``.

    Example:
        >>> parts = [_Part(3, i, 2).places(5, 0) for i in range(2)]
        >>> sorted(torch.cat(parts).tolist()), len(parts[0])
        ([0, 1, 2, 3, 4], 2)
    """

    turn: int
    part: int
    parts: int
    needs_seed: ClassVar[bool] = True  # none are written: the header has what they follow from
    one_sign: ClassVar[bool] = False
    unit: ClassVar[int] = 1

    def _ends(self, n: int) -> tuple[int, int]:
        return self.part * n // self.parts, (self.part + 1) * n // self.parts

    def count(self, n: int) -> int:
        """n / parts, or one more."""
        first, last = self._ends(n)
        return last - first

    def places(self, n: int, seed: int) -> Tensor:
        first, last = self._ends(n)
        order = words(self.turn, np.arange(n)).astype(np.int64) << 31 | np.arange(n)
        if 0 < first < n:
            order.partition(first)
            order = order[first:]
        if 0 < last - first < order.size:
            order.partition(last - first - 1)
        places = np.sort(order[: last - first] & (1 << 31) - 1)
        return torch.from_numpy(places)

    def select(self, x: Tensor, seed: int) -> tuple[Tensor, float]:
        return self.places(x.numel(), seed), float(self.parts)


@dataclass(frozen=True)
class PermK:
    """The entries of one of ``clients`` parts of a permutation, times ``clients``, as float32.

        S_i = {pi_j : floor(i d / N) <= j < floor((i + 1) d / N)}
        x_hat = N x on S_i, else 0

    N is ``clients``, i = 0, ..., N - 1 the client and pi the order of all d entries that a round's
    seed draws (Szlendak et al. 2021, https://arxiv.org/abs/2110.03300, Definition 2). So no two
    clients send the same entry, the mean of all messages is unbiased, and where all updates are
    equal it has no error at all: masks that are drawn one by one have d / k - 1 divided by the
    clients. Sizes that the clients do not divide differ by one, and an update then weighs its share
    of the entries in the mean.

    A message is the round's seed in 32 bits, the client's number in 16 and the values. Seed and
    number come from the client's half of strategy ``permk``, which every client's memory holds
    before a message; every other strategy refuses this method.

    Args:
        clients: of the federation, 1 to 65535.

    Raises ``ValueError`` for any other number.

    Example:
        >>> from compressors import compress, parse
        >>> method, update = parse("permk(2)"), {"w": torch.tensor([3.0, 1.0])}
        >>> turns = [{"turn/turn": torch.tensor([7, client])} for client in range(2)]
        >>> sent = [compress(method, update, turn)[0].sent["w"].decoded for turn in turns]
        >>> (sent[0] + sent[1]) / 2
        tensor([3., 1.])
    """

    codec_id: ClassVar[str] = "permk"
    server: ClassVar[str] = "permk"
    keeps: ClassVar[tuple[str, ...] | None] = (TURN,)
    needs_seed: ClassVar[bool] = False
    clients: int

    def __post_init__(self) -> None:
        plain(self)
        check_whole("permk: clients", self.clients, 1, 65535)

    def init(self, template: Tensors) -> State:
        """Nothing: the turn of client 0 in a round of seed 0, until somebody says another."""
        return {}

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        """See ``Compressor.write``; the turn is used up, ``UpdateError`` for one of nobody."""
        turn, client = (int(number) for number in unnest(TURN, state).get(TURN, (0, 0)))
        if not (0 <= client < self.clients and 0 <= turn < 1 << 32):
            raise UpdateError(f"permk: client {client} of {self.clients}, with a seed of {turn}")
        if any(x.numel() for x in update.values()):
            with out.span("header"):
                out.uint(turn, 32)
                out.uint(client, 16)
        return self._entries(turn, client).write(update, {}, out, seed)

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        """See ``Compressor.read``; ``PayloadError`` for a client that there is not."""
        turn, client = 0, 0
        if any(x.numel() for x in template.values()):
            with bits.span("header"):
                turn, client = bits.uint(32), bits.uint(16)
        if client >= self.clients:
            raise PayloadError(f"permk: client {client} of {self.clients}")
        return self._entries(turn, client).read(bits, template, seed)

    def _entries(self, turn: int, client: int) -> Flat:
        return Flat(Pipeline(_Part(turn, client, self.clients), Float32()))

    def bound_on(self, d: int) -> Bound:
        """Each entry arrives with chance 1 / clients, times their number.

        If clients do not divide d, one client's entry arrives with chance n / d, n the entries of
        its part: n clients / d of the update in the mean, an error of
        1 + n clients (clients - 2) / d.
        """
        return unbiased(
            self.clients - 1.0,
            "clients - 1, of a client drawn by chance; with equal "
            "updates 0 in the mean (Szlendak et al. 2021, Lemma 1)",
        )
