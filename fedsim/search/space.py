"""The space that is searched: methods, n, p, coders, rates, downlinks; the run at each point."""

import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from math import inf, log10
from typing import Any

import numpy as np
import torch

from compressors import Tensors, compress, decompress, text
from fedsim.federation.clientdata import ClientData
from fedsim.federation.precheck import check_growth
from fedsim.federation.trainer import Trainer
from fedsim.ground.errors import UsageError
from fedsim.search.goal import Goal
from fedsim.search.methods import (
    CODERS,
    OWN_CODER,
    at_rate,
    compressor,
    max_fraction,
    sent_down,
    takes_coder,
)
from fedsim.settings.config import RunConfig
from fedsim.settings.grids import Cell
from fedsim.settings.methods import takes_fraction, with_fraction

_RATES = 10.0  # a rate lies within this factor of where the search begins, on either side
_SERVER_RATES = 30.0
_EVALUATIONS, _FINE = 20, 40
_DRAWS = 24
_LEAST = 1e-4

Params = dict[str, Any]
"""A point: method, coder, temporal, gradient, lr; where the strategy has one server_lr; and where
bits count both ways downlink and down_gradient, the downlink's fraction."""


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

    @property
    def least(self) -> float:
        """The smallest fraction that is tried: one entry of the model, or 1e-4."""
        return min(0.5, max(_LEAST, 1 / self.entries))

    def _bits(self, method: str, p: float | None, coder: str) -> int:
        codec = compressor(method, p, coder)
        packet, _ = compress(codec, self.update, codec.init(self.update), seed=0)
        return 8 * len(packet.payload)

    def try_out(self, method: str, p: float | None, coder: str) -> None:
        """Encodes and decodes a message: what that compiles is there for the runs."""
        codec = compressor(method, p, coder)
        packet, _ = compress(codec, self.update, codec.init(self.update), seed=0)
        decompress(codec, packet.payload, self.update)


@dataclass(frozen=True)
class Space:
    """Which points there are, and the run at each.

    Every point has a fraction and a delay; a method that takes none, or works with n = 1 alone,
    does not use them.

    Args:
        base: the settings that all runs share; its seed is that of the trials.
        goal: what is searched for.
        methods: texts with ``{p}`` where they take a fraction, each of which ``fits``.
        sizes: messages of the task's model.
    """

    base: RunConfig
    goal: Goal
    methods: tuple[str, ...]
    sizes: Sizes

    @cached_property
    def limits(self) -> dict[str, tuple[float, float]]:
        """The least and the greatest value of every number."""
        rate, longest = self.sizes.rate, max(1, self.base.plan.iterations // 2)
        limits: dict[str, tuple[float, float]] = {
            "temporal": (1, longest),
            "gradient": (self.sizes.least, 1.0),
            "lr": (rate / _RATES, rate * _RATES),
        }
        if middle := getattr(self.base.plan.algorithm, "server_lr", None):
            # A share of the model in some strategies, which is one at most.
            ends = (end for end in (middle * _SERVER_RATES, 1.0) if self._takes_rate(end))
            limits["server_lr"] = (middle / _SERVER_RATES, max(middle, next(ends, middle)))
        if self.downlinks:
            limits["down_gradient"] = (self.sizes.least, 1.0)
        return limits

    def _takes_rate(self, server_lr: float) -> bool:
        try:
            return bool(self.base.but(server_lr=server_lr).plan)
        except UsageError:
            return False

    @cached_property
    def downlinks(self) -> tuple[str, ...]:
        """The downlinks that are tried; none where the bits down do not count, or one was given.

        They are ``raw``, ``relay`` and the methods, as far as a run with these settings takes them.
        """
        if self.goal.budget_of == "up" or self.base.downlink is not None:
            return ()
        named = [d for d in dict.fromkeys(("raw", "relay", *self.methods)) if d == at_rate(d)]
        below = {d: with_fraction(d, self.sizes.least) if takes_fraction(d) else d for d in named}
        return tuple(
            d for d, downlink in below.items() if not why_not(self.base, "raw", downlink=downlink)
        )

    def used(self, params: Params) -> Params:
        """A point as it is run: two digits, no more than its method takes, None for what is unused.

        Example: a method without a fraction has ``gradient`` None.
        """
        method = params["method"]
        p = min(_two(params["gradient"]), max_fraction(method)) if takes_fraction(method) else None
        coder = params["coder"] if takes_coder(method, p, params["coder"]) else OWN_CODER
        n = 1 if method in self.at_one else int(_two(params["temporal"]))
        point = {"method": method, "coder": coder, "temporal": n, "gradient": p}
        point |= {k: _two(params[k]) for k in ("lr", "server_lr") if k in self.limits}
        if self.downlinks:
            down = params["downlink"]
            p = (
                min(_two(params["down_gradient"]), max_fraction(down))
                if takes_fraction(down)
                else None
            )
            point |= {"downlink": down, "down_gradient": p}
        return point

    @cached_property
    def at_one(self) -> frozenset[str]:
        """The methods that work with n = 1 alone."""
        return frozenset(m for m in self.methods if why_not(self.base, m, 2))

    def bits(self, params: Params) -> int:
        """The bits of a first message at a point, about."""
        used = self.used(params)
        return self.sizes.bits(used["method"], used["gradient"], used["coder"])

    def down(self, params: Params) -> int:
        """The bits of a message to a client at a point that count, about: none upstream.

        Relayed, a client receives the messages of all others.
        """
        if self.goal.budget_of == "up":
            return 0
        used = self.used(params)
        down = used.get("downlink", self.base.downlink)
        if down == "relay":
            return self.bits(params) * (self.base.plan.cohort - 1)
        return self.sizes.bits(down or "raw", used.get("down_gradient"), OWN_CODER)

    @property
    def dense(self) -> int:
        """The bits that count of a client which sends 32 of each entry after every iteration."""
        ways = 2 if self.goal.budget_of == "total" else 1
        return 32 * self.sizes.entries * self.base.plan.iterations * ways

    def config(self, params: Params) -> RunConfig:
        """The run at a point, scored on the validation part."""
        used = self.used(params)
        method, p = used["method"], used["gradient"]
        shown = method
        method = at_rate(method, used["lr"])
        if used["coder"] != OWN_CODER:
            method, p = text(compressor(method, p, used["coder"])), None
            shown = f"{shown}, {used['coder']}"
        n = used["temporal"]
        rounds = -(-self.base.plan.iterations // n)
        evaluate_every = max(1, rounds // _FINE)
        if self.goal.budget is not None:
            down = self.down(params)  # with every round but the first
            each = self.bits(params) + down
            within = min(rounds, max(1, int((self.goal.budget + down) / each)))
            evaluate_every = max(1, within // _EVALUATIONS)
        more: dict[str, Any] = {k: used[k] for k in ("lr", "server_lr") if k in used}
        more |= {"downlink": sent_down(used)} if self.downlinks else {}
        return self.base.but(
            method=method,
            gradient=p,
            temporal=n,
            label=shown,
            evaluate_every=evaluate_every,
            stop_at_bits=self.goal.budget,
            **more,
        )

    def cell(self, params: Params, seed: int | None = None, validation: bool = True) -> Cell:
        """The run at a point, by the name of its folder."""
        config = self.config(params)
        seed = config.seed if seed is None else seed
        part = config.evaluation.validation if validation else None
        config = config.but(seed=seed, validation=part)
        used = self.used(params)
        name = re.sub(r"[^A-Za-z0-9]+", "-", used["method"].replace("{p}", "p")).strip("-")
        fraction = "" if used["gradient"] is None else f"-p{used['gradient']:g}"
        digest = config.digest_of(files=False)
        return Cell(f"{name}-n{used['temporal']}{fraction}-s{seed}-{digest}", config)

    def prepare(self) -> None:
        """Tries out a message of every method, and one with every coder."""
        fractions = {m: self.sizes.least if takes_fraction(m) else None for m in self.methods}
        for method, p in fractions.items():
            self.sizes.try_out(method, p, OWN_CODER)
        for coder in CODERS:
            takers = (item for item in fractions.items() if takes_coder(*item, coder))
            for method, p in islice(takers, 1):
                self.sizes.try_out(method, p, coder)

    def draw(self, number: int, method: str, seed: int) -> Params:
        """A first point of a method, the rate as the task has it.

        Of several that are drawn, it is that whose messages best use the budget, in four rounds
        or more.
        """
        draws = np.random.default_rng([seed, number])
        points = [self._drawn(method, draws) for _ in range(_DRAWS)]
        return min(points, key=self._wasted) if self.goal.budget is not None else points[0]

    def _drawn(self, method: str, draws: np.random.Generator) -> Params:
        logs = {k: draws.uniform(log10(low), log10(high)) for k, (low, high) in self.limits.items()}
        point: Params = {k: float(10**value) for k, value in logs.items()}
        for rate in ("lr", "server_lr"):
            if rate in self.limits:
                low, high = self.limits[rate]
                point[rate] = (low * high) ** 0.5
        low, high = self.limits["temporal"]
        point["temporal"] = int(min(max(round(point["temporal"]), low), high))
        if self.downlinks:  # the same both ways, where that is possible
            down = method if method in self.downlinks else self.downlinks[0]
            point |= {"downlink": down, "down_gradient": point["gradient"]}
        return {"method": method, "coder": OWN_CODER, **point}

    def _wasted(self, point: Params) -> float:
        """How far the bits of all rounds are from the budget, as a logarithm; few rounds cost."""
        assert self.goal.budget is not None
        used = self.used(point)
        rounds, down = -(-self.base.plan.iterations // used["temporal"]), self.down(point)
        each = self.bits(point) + down
        few = max(0.0, log10((4 * each - down) / self.goal.budget))
        return abs(log10((rounds * each - down) / self.goal.budget)) + 10 * few


def _two(value: float) -> float:
    return float(f"{value:.2g}")


def why_not(base: RunConfig, method: str, temporal: int = 1, downlink: str | None = None) -> str:
    """Why a method cannot be run with these settings; empty where it can be.

    ``downlink``: the one to be run with, in place of the settings' own.
    """
    p = 0.01 if takes_fraction(method) else None
    temporal = min(temporal, base.plan.iterations)
    try:
        config = replace(
            base,
            method=at_rate(method),
            gradient=p,
            temporal=temporal,
            downlink=downlink or base.downlink,
        )
        check_growth(config)
    except UsageError as error:
        return str(error)
    return ""


def fitting(
    base: RunConfig, goal: Goal, methods: list[str], sizes: Sizes
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The methods that can be searched, and why the others cannot.

    Raises:
        UsageError: none can; or no message of any method fits the budget.
    """
    left = {m: reason for m in methods if (reason := why_not(base, m))}
    if len(left) == len(methods):
        raise UsageError(f"--methods: none can be run: {next(iter(left.values()))}")
    fractions = {m: sizes.least if takes_fraction(m) else None for m in methods if m not in left}
    bits = {m: sizes.bits(m, p, OWN_CODER) for m, p in fractions.items()}
    smallest, budget = min(bits, key=lambda method: bits[method]), goal.budget or inf
    if bits[smallest] > budget:
        raise UsageError(
            f"--budget is {budget:g} bit: one message of {smallest} has {bits[smallest]} bit for "
            "this model, and no other method's is smaller"
        )
    left |= {m: f"its smallest message has {b} bit" for m, b in bits.items() if b > budget}
    return tuple(m for m in bits if m not in left), left
