"""The runs of a task: draws that are halved on longer runs, then the seeds of what was chosen."""

from collections.abc import Mapping
from functools import lru_cache
from math import floor, inf, isnan
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from scipy.stats import qmc

from experiments.common.budgets import KEPT
from experiments.common.staged import Runs, within
from fedsim import Cell, RunConfig, load
from fedsim.network import parse
from fedsim.search import OWN_CODER, Sizes
from fedsim.show import priced

from .rows import DENSE, Row, Scale, Task

RUNGS = (8, 4, 2, 1)
"""The run is so many times shorter at each halving; at the last it is whole."""

LEAST_DELAY = 4
"""Runs of more rounds take longer than two cores can pay."""

RATES = (0.1, 3.0)
"""Between these factors on the task's rate draws lie at first."""

BEYOND = 3.0
EXTENSIONS = 2
"""How often an optimum at an edge moves the edge."""

NETWORKS = ("4g", "wifi")


class Case(NamedTuple):
    """A method at a budget."""

    method: str
    budget: float


class Trial(NamedTuple):
    """Rounds, the factor on the task's rate, and the place of the strength from the weakest."""

    rounds: int
    factor: float
    strength: int


class Stages(Runs):
    """What is run of one task.

    Args:
        name: of the task.
        task: its settings.
        rows: the methods.
        scale: what is run.
        out: the folder of the task.
        jobs: runs at the same time.
        data: the folder with data sets; None: fedsim's default.
    """

    def __init__(
        self,
        name: str,
        task: Task,
        rows: Mapping[str, Row],
        scale: Scale,
        out: Path,
        jobs: int,
        data: str | None,
    ) -> None:
        super().__init__(out, jobs)
        self.name, self.task, self.scale = name, task, scale
        self._shared: dict[str, Any] = {
            "task": task.task,
            "partition": task.partition,
            "clients": task.clients,
            "cohort": task.cohort,
            "batch_size": task.batch_size,
            "test_samples": task.scored,
            "data": data,
        }
        self.iterations = (scale.iterations or task.iterations) * scale.longer
        self.seeds = scale.seeds or task.seeds
        base = RunConfig.of(method="raw", temporal=1, iterations=1, **self._shared)
        self._sizes = Sizes(base)
        buffers = base.plan.task.build().buffers()
        self._buffers = 32 * sum(b.numel() for b in buffers if b.is_floating_point())
        self._raw = self._sizes.bits("raw", None, OWN_CODER)
        self.dense = 2 * self._raw * self.iterations
        self.bits = lru_cache(maxsize=None)(self._bits)
        self.rows = {name: row for name, row in rows.items() if self._takes(row)}

    def _takes(self, row: Row) -> bool:
        """Whether the method runs with the task's clients.

        Perm-K deals to all four; EF21's server keeps the mean of what all clients sent last.
        """
        return row.more.get("strategy") not in ("permk", "ef21") or self.task.cohort is None

    def cases(self) -> list[Case]:
        """The methods at the budgets that one round of theirs keeps, and dense without a budget."""
        asked = [Case(m, b) for m in self.rows for b in sorted(self.scale.budgets)]
        reach = [Case(DENSE, 1.0)] if DENSE in self.rows else []
        return [case for case in (*asked, *reach) if self.strengths(case, 1)]

    def _bits(self, method: str, strength: int) -> tuple[float, float]:
        """Bits of a round, up and down, of a client of the cohort; and once, of first models."""
        row = self.rows[method]
        text, down = row.at(row.strengths[strength])
        up, raw = self._sizes.bits(text, None, OWN_CODER), self._raw
        cohort = self.task.cohort or self.task.clients
        gap, new = self.task.clients / cohort, (self.task.clients - cohort) / cohort * raw
        if down == "relay":
            others = (up + 24.0) * (cohort - 1 if gap == 1 else gap * cohort)
            back = others if gap == 1 else min(others, raw)
        else:  # what a client missed, where that is shorter than the model
            back = min(gap * self._sizes.bits(down, None, OWN_CODER), raw)
        return up + back + 2 * self._buffers, new

    def strengths(self, case: Case, rounds: int) -> list[int]:
        """Those of which so many rounds fit the budget and use a quarter of what the best one does.

        The last model's way down is paid, too, though no run sends it. First models take a part of
        the budget, which does not depend on the strength: the quarter is of the rest.
        """
        fit = {}
        for place in range(len(self.rows[case.method].strengths)):
            each, once = self.bits(case.method, place)
            if rounds * each + once * (rounds > 1) <= case.budget * self.dense:
                fit[place] = each
        return [place for place, each in fit.items() if 4 * each >= max(fit.values())]

    def draws(self, case: Case) -> list[Trial]:
        """The same points of a Latin hypercube for every case: rounds, rate, strength."""
        most = self.iterations // LEAST_DELAY
        while not self.strengths(case, most):
            most = floor(0.9 * most)
        low, high = RATES
        made = []
        for u, v, w in qmc.LatinHypercube(3, rng=0).random(self.scale.draws):
            rounds = even(max(1, round(most ** (1 - u))), self.iterations)
            strengths = self.strengths(case, rounds)
            made.append(
                Trial(rounds, two(low * (high / low) ** v), strengths[floor(w * len(strengths))])
            )
        return list(dict.fromkeys(made))

    def cell(self, case: Case, trial: Trial, part: int, seed: int | None = None) -> Cell:
        """A run.

        Args:
            case: the method and the budget.
            trial: what was drawn.
            part: the run is so many times shorter; its delay is at most its length.
            seed: of a final run, on all training samples; None: a trial of seed 0, which is scored
                on a fifth of the training samples that it does not train on.
        """
        row, whole = self.rows[case.method], self.iterations // trial.rounds
        length = max(1, self.iterations // part)
        delay = min(whole, length)
        rounds = length // delay
        text, down = row.at(row.strengths[trial.strength])
        config = RunConfig.of(
            method=text,
            downlink=down,
            temporal=delay,
            iterations=rounds * delay,
            lr=two(self._sizes.rate * trial.factor, 3),
            label=case.method,
            seed=seed or 0,
            evaluate_every=max(1, rounds // 4),
            validation=0.2 if seed is None else None,
            catch_up=self.task.cohort is not None and down != "raw",
            **self._shared,
            **row.more,
        )
        drawn = f"r{trial.rounds}-x{trial.factor:g}-s{trial.strength}"
        ending = f"l{part}" if seed is None else f"seed{seed}"
        return Cell(f"{case.method}-{drawn}-{ending}", config)

    def told_before(self, name: str) -> dict[tuple[str, float, str], dict[str, Any]]:
        """The lines of a table that the folder holds, by ``_named``.

        What they say is not run again, though the runs' own folders may be gone.
        """
        path = self.out / f"{name}.csv"
        frame = pd.read_csv(path, dtype={"run": str}) if path.exists() else pd.DataFrame()
        if "run" not in frame:
            return {}
        lines = frame.to_dict("records")
        return {(line["method"], line["budget"], line["run"]): line for line in lines}

    def losses(
        self, wanted: Mapping[Case, list[Trial]], part: int
    ) -> dict[Case, dict[Trial, float]]:
        """The validation loss of trials; infinite where they diverged or exceed their budget."""
        cells = {(c, t): self.cell(c, t, part) for c, trials in wanted.items() for t in trials}
        before = self.told_before("trials")
        lines = {key: before.get(_named(cell, key[0])) for key, cell in cells.items()}
        self.run([cell for key, cell in cells.items() if lines[key] is None], "trials")
        told: dict[Case, dict[Trial, float]] = {case: {} for case in wanted}
        for (case, trial), cell in cells.items():
            if (line := lines[case, trial]) is not None:
                told[case][trial] = inf if isnan(line["loss"]) else line["loss"]
                continue
            curve = self.curve(cell, "trials", "total")
            place = curve.within(KEPT * case.budget * self.dense)
            told[case][trial] = inf if place is None else curve.losses[place]
        return told

    def tune(self) -> tuple[dict[Case, dict[Trial, float]], list[dict[str, Any]]]:
        """The losses of the whole runs of every case, and a line per trial."""
        waiting = {case: self.draws(case) for case in self.cases()}
        first, lines = waiting, list[dict[str, Any]]()
        for part in RUNGS:
            told = self.losses(waiting, part)
            lines += self._lines(told, part)
            waiting = {c: halved(trials) for c, trials in told.items()}
        for _ in range(EXTENSIONS):
            edges = {c: self.beyond(c, best(told[c]), {*first[c], *told[c]}) for c in told}
            more = self.losses({c: trials for c, trials in edges.items() if trials}, 1)
            lines += self._lines(more, 1)
            for case, trials in more.items():
                told[case] |= trials
        return told, lines

    def _lines(self, told: Mapping[Case, Mapping[Trial, float]], part: int) -> list[dict[str, Any]]:
        return [
            self._line(c, t)
            | {
                "part": part,
                "loss": loss if loss < inf else None,
                "run": self.cell(c, t, part).config.digest,
            }
            for c, trials in told.items()
            for t, loss in trials.items()
        ]

    def beyond(self, case: Case, top: Trial, tried: set[Trial]) -> list[Trial]:
        """A step beyond each edge of what was tried on which the best lies, where one fits."""
        made = []
        for place, steps in enumerate((_twice, _thrice, _next)):
            values = [trial[place] for trial in tried]
            for at, step in zip((min(values), max(values)), steps(top), strict=True):
                step = step._replace(rounds=even(step.rounds, self.iterations))
                if top[place] == at and self._fits(case, step):
                    made.append(step)
        return [trial for trial in dict.fromkeys(made) if trial not in tried]

    def _fits(self, case: Case, trial: Trial) -> bool:
        if not 1 <= trial.rounds <= self.iterations // LEAST_DELAY:
            return False
        if not 0 <= trial.strength < len(self.rows[case.method].strengths):
            return False
        each, once = self.bits(case.method, trial.strength)
        return trial.rounds * each + once * (trial.rounds > 1) <= case.budget * self.dense

    def stands(self, told: Mapping[Case, Mapping[Trial, float]]) -> dict[Case, tuple[Case, Trial]]:
        """The best trial of a method's own and its smaller budgets, for each case."""
        made = {}
        for case in told:
            own = [c for c in told if c.method == case.method and c.budget <= case.budget]
            winner = min(own, key=lambda c: (min(told[c].values()), -c.budget))
            made[case] = winner, best(told[winner])
        return made

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Runs all; a line per trial, and a line per final run."""
        told, trials = self.tune()
        cells = {
            (case, stood, trial, seed): self.cell(stood, trial, 1, seed)
            for seed in range(1, self.seeds + 1)
            for case, (stood, trial) in self.stands(told).items()
        }
        before = self.told_before("finals")
        lines = {key: before.get(_named(cell, key[0])) for key, cell in cells.items()}
        waiting = [cell for key, cell in cells.items() if lines[key] is None]
        self.run(waiting, "finals", described=True)
        times = self._times() if waiting else {}
        finals = []
        for (case, stood, trial, seed), cell in cells.items():
            mine = self._line(case, trial) | {"tuned_at": two(stood.budget, 3), "seed": seed}
            line = lines[case, stood, trial, seed]
            if line is None:
                line = self._ended(cell, case) | times.get(cell.name, {})
                line["run"] = cell.config.digest
            finals.append(mine | line | mine)
        return pd.DataFrame(trials), pd.DataFrame(finals)

    def _ended(self, cell: Cell, case: Case) -> dict[str, Any]:
        summary = self.summary(cell, "finals")
        allowed = case.budget * self.dense
        point = within(self.curve(cell, "finals", "total"), allowed)
        return {
            "bits_up": summary["up_wire_bits"],
            "bits_down": summary["down_wire_bits"],
            "used": None if point is None else point[0] / allowed,
            "metric": None if point is None else point[1],
            "status": summary["status"],
        }

    def _times(self) -> dict[str, dict[str, float]]:
        """By run: the median of a message's encoding in ms, and the seconds on networks."""
        results = load(self.out / "finals")
        rounds = results.done_rounds
        encoding = 1000 * rounds["encode_seconds"] / rounds["clients"]
        told = {"encode_ms": encoding.groupby(rounds["run"]).median()}
        for network in NETWORKS:
            ends = priced(results, parse(network)).groupby("run")["sim_end_seconds"]
            told[f"{network}_seconds"] = ends.last()
        made: dict[str, dict[str, float]] = pd.DataFrame(told).to_dict("index")
        return made

    def _line(self, case: Case, trial: Trial) -> dict[str, Any]:
        return {
            "task": self.name,
            "method": case.method,
            "budget": two(case.budget, 3),
            "rounds": trial.rounds,
            "n": self.iterations // trial.rounds,
            "factor": trial.factor,
            "strength": self.rows[case.method].strengths[trial.strength],
        }

    def plan(self) -> str:
        """How much there is to run, in words."""
        draws = {case: len(self.draws(case)) for case in self.cases()}
        trials, whole = 0, 0.0
        for count in draws.values():
            for part in RUNGS:
                trials, whole = trials + count, whole + count / part
                count = max(1, count // 2)
        finals = len(draws) * self.seeds
        steps = (whole + finals) * self.iterations * (self.task.cohort or self.task.clients)
        return (
            f"{self.name}: {len(draws)} methods at budgets, {trials} trials as long as "
            f"{whole:.0f} whole runs, then what edges ask for, and {finals} final runs: "
            f"{steps / 1e6:.2f} million steps of clients"
        )


def _named(cell: Cell, case: Case) -> tuple[str, float, str]:
    """How a line of a table is found: its method and budget, and the digest of a run's settings."""
    return case.method, two(case.budget, 3), cell.config.digest


def even(rounds: int, iterations: int) -> int:
    """The greatest number of rounds, at most so many, that fill the iterations with one delay.

    Example:
        >>> even(72, 500), 500 // 71  # 72 would be rounds of 6, of which 83 fill 500
        (71, 7)
    """
    if not rounds:
        return 0
    delay = iterations // rounds
    return rounds if iterations // delay == rounds else iterations // (delay + 1)


def two(value: float, digits: int = 2) -> float:
    """So many significant digits."""
    return float(f"{value:.{digits}g}")


def best(tried: Mapping[Trial, float]) -> Trial:
    """The trial of the least loss; of equals the first."""
    return min(tried, key=lambda trial: tried[trial])


def halved(tried: Mapping[Trial, float]) -> list[Trial]:
    """The better half of trials.

    Example:
        >>> one, two, three = (Trial(n, 1.0, 0) for n in (1, 2, 3))
        >>> halved({one: 0.5, two: 0.4, three: 0.9}) == [two]
        True
    """
    return sorted(tried, key=lambda trial: tried[trial])[: max(1, len(tried) // 2)]


def _twice(trial: Trial) -> tuple[Trial, Trial]:
    return trial._replace(rounds=trial.rounds // 2), trial._replace(rounds=2 * trial.rounds)


def _thrice(trial: Trial) -> tuple[Trial, Trial]:
    less, more = two(trial.factor / BEYOND), two(trial.factor * BEYOND)
    return trial._replace(factor=less), trial._replace(factor=more)


def _next(trial: Trial) -> tuple[Trial, Trial]:
    below, above = trial.strength - 1, trial.strength + 1
    return trial._replace(strength=below), trial._replace(strength=above)
