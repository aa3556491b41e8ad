"""Secure aggregation (docs/secagg.md): bits of the keys and shares of a round, and fixed point."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.support.twin.draws import Draws
from tests.support.twin.messages import HEADER, Message, whole
from tests.support.twin.network import call

Pair = tuple[int, int]


@dataclass(frozen=True)
class Keys:
    """The messages of a round of n clients except the masked integers, in bits down and up."""

    n: int
    fraction: Fraction

    @staticmethod
    def of(settings: dict[str, Any], n: int) -> "Keys | None":
        """Those of a run's round; None without secure aggregation."""
        name, arguments = call(settings.get("strategy", "dsgd"))
        return Keys(n, Fraction((arguments or ["0.5"])[0])) if name == "secagg" else None

    @property
    def threshold(self) -> int:
        """How many replies a round needs."""
        return max(2, math.floor(self.fraction * self.n) + 1)

    @property
    def before(self) -> list[Pair]:
        """Keys; then everybody's keys, and shares for each of the others."""
        return [(0, 8 * 64), (8 * (4 + 68 * self.n), self.shares)]

    @property
    def shares(self) -> int:
        """Bits of the shares that the others made for a client, which come with the model."""
        return 8 * 88 * (self.n - 1)

    @property
    def after(self) -> Pair:
        """Who survived, and a share for each client."""
        return 8 * math.ceil(self.n / 8), 8 * 32 * self.n

    def book(self, row: dict[str, Any], used: bool) -> None:
        """Adds them to a client's row."""
        up = sum(bits for _, bits in self.before) + used * self.after[1]
        down = self.before[1][0] + self.shares + used * self.after[0]
        row["down_wire_bits"] += down
        row["down_key_bits"] += down
        row["up_wire_bits"] += used * up
        row["up_key_bits"] += used * up
        row["failed_up_bits"] += (not used) * up


class FixedPoint:
    """``secagg(bits, clip, modulus, p, weight)`` for one message of one client.

    Masks cancel in the sum, so that a message is seen as what it adds to it.
    """

    around, p, takes_back, masks = "", None, False, False

    def __init__(self, text: str, draws: Draws, client: int, round_number: int) -> None:
        bits, clip, modulus, p, weight = (float(a) for a in call(text)[1])
        self.most, self.clip, self.modulus = 2 ** (int(bits) - 1) - 1, clip, int(modulus)
        self.fraction, self.weighted = p, weight > 0
        self.draws, self.client, self.round = draws, client, round_number
        self.near = False  # whether roundings of float32 decided a whole number

    def encode(self, x: np.ndarray, tensors: list[int], p: float | None = None) -> Message:
        """The message of a vector."""
        count = max(1, round(self.fraction * len(x)))
        places = np.arange(len(x))
        if self.fraction < 1:
            places = self.draws.travels(self.round, count, len(x))
        step = self.clip / self.most
        noise = self.draws.noise(self.client, self.round, count)
        exact = np.clip(x[places], -self.clip, self.clip) / step + noise
        self.near = bool((abs(exact - np.rint(exact)) < 1e-4).any())
        seen, sent = np.zeros(len(x)), np.zeros(len(x), bool)
        whole_steps = np.clip(np.floor(exact), -self.most, self.most)
        seen[places], sent[places] = whole_steps * step * len(x) / count, True
        content = self.modulus * (count + self.weighted)
        header = HEADER + 1 + 32 * (self.fraction < 1)
        return Message(seen, sent, whole(header + content), content, self.fraction < 1)
