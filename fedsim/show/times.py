"""Results on a clock: simulated time to a target, under one network or over all bandwidths."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.ground.errors import UsageError
from fedsim.network.availability import parse_availability
from fedsim.network.pricing import SECONDS, ends_over_rates, joules, price
from fedsim.network.spec import ALLREDUCE, NetworkSpec, parse
from fedsim.results.labels import averages, delay_symbol, in_order
from fedsim.results.load import Results
from fedsim.results.schema import clients_of
from fedsim.settings import controllers
from fedsim.settings.controllers.base import NETWORK
from fedsim.settings.groups import UNIFORM
from fedsim.show.inputs import check_task
from fedsim.show.style import higher_is_better

CELL = ["task", "label", "temporal", "gradient"]
_DECIDES = 0.5  # of the seconds, from which on the download decides
_COMPUTE = ("compute", "measured", "by_flops", "flops")
"""The settings of a network by which clients do as many local iterations as fit into a time."""

_NONE_DONE = "there is no run that is done: a price needs one"
BANDWIDTHS = tuple(float(x) for x in np.geomspace(1e3, 1e11, 65))
"""Bandwidths over which methods are compared, in bits per second: eight per power of ten."""


Flops = Callable[[Path], float]
"""From a run's folder to the floating-point operations of one of its local iterations."""


def priced(results: Results, network: NetworkSpec, flops: Flops | None = None) -> pd.DataFrame:
    """The rounds of all finished runs with their simulated seconds; nothing is trained again.

    Args:
        results: what `fedsim.load(...)` gave; of synchronous runs, without a deadline.
        network: the links, as `fedsim.network.parse` reads them.
        flops: counts the operations of a run; a network that goes by them needs it, unless it has
            `flops`.

    Returns:
        `results.rounds` of the runs that are done, with the columns that
        `fedsim.network.pricing.price` adds. Times start at 0 with each run. With energy in the
        network also `energy_joules`, as `fedsim.network.pricing.joules`.

    Raises:
        UsageError: a run's `clients.parquet` cannot be read, or simulated time decided what the
            run trained.
    """
    tables = []
    for run in _runs(results, network, flops):
        tables.append(price(*run)[0])
        if network.spends:
            tables[-1]["energy_joules"] = joules(*run)
    return pd.concat(tables, ignore_index=True)


def own_times(results: Results) -> tuple[str, pd.DataFrame]:
    """The rounds of all finished runs on the clocks that they ran with, and the networks' name.

    Returns:
        The runs' setting `--network`, or "their own networks" where they had several; and
        `results.rounds` of the runs that are done, whose times start at 0 with each run.

    Raises:
        UsageError: a run had no network; or none is done.
    """
    done = results.done_rounds
    if not len(done):
        raise UsageError(_NONE_DONE)
    networks = {
        str(name): results.configs.get(str(name), {}).get("network") for name in results.done.index
    }
    for name, network in networks.items():
        if network is None:
            raise UsageError(
                f"{results.folders[name]} was run without --network and has no clock of its own: "
                "give --network"
            )
    several = len(set(networks.values())) > 1
    return "their own networks" if several else str(networks[str(results.done.index[0])]), done


def to_target(
    rounds: pd.DataFrame, target: float, runs: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The simulated time after which each cell first reaches a metric.

    Args:
        rounds: what `priced` or `own_times` gave.
        target: the metric, of one task; at least so much, or at most, where a lower one is better.
        runs: `results.runs`, whose failed seeds count as seeds that did not come there; None: those
            of `rounds` are all.

    Returns:
        A row per cell (task, label, temporal, gradient), the fastest first: `seeds`; `reached`, how
        many of them came to the target; `target_seconds`, the mean over the seeds, NaN where one
        of them did not; `target_seconds_sd`, their sample deviation; `sim_seconds`, the mean length
        of the whole runs; where there is energy, `energy_joules`, the mean of the whole runs.
    """
    sign = 1 if higher_is_better(rounds) else -1
    at = rounds.assign(reached=sign * rounds["metric"] >= sign * target)
    first = at[at["reached"]].groupby("run")["sim_end_seconds"].min()
    each = at.groupby("run").agg({**dict.fromkeys(CELL, "first"), "sim_end_seconds": "max"})
    each = each.rename(columns={"sim_end_seconds": "sim_seconds"})
    each["target_seconds"] = first.reindex(each.index)
    energy = {}
    if "energy_joules" in at:
        each["energy_joules"] = at.groupby("run")["energy_joules"].sum()
        energy = {"energy_joules": ("energy_joules", "mean")}
    cells = each.groupby(CELL).agg(
        seeds=("sim_seconds", "size"),
        reached=("target_seconds", "count"),
        target_seconds=("target_seconds", lambda x: x.mean(skipna=False)),
        target_seconds_sd=("target_seconds", lambda x: x.std(skipna=False)),
        sim_seconds=("sim_seconds", "mean"),
        **energy,
    )
    if runs is not None:
        lost = _lost(runs).reindex(cells.index, fill_value=0)
        cells["seeds"] += lost
        cells.loc[lost > 0, ["target_seconds", "target_seconds_sd"]] = np.nan
    return cells.reset_index().sort_values("target_seconds", kind="stable", ignore_index=True)


def download_told(rounds: pd.DataFrame) -> str:
    """A remark on a raw downlink that takes most of compressed runs' seconds; else empty.

    Example:
        >>> rounds = pd.DataFrame({
        ...     "task": ["digits"], "label": ["sbc"], "temporal": [10], "gradient": [0.01],
        ...     "dense": [False], "downlink": ["raw"], **dict.fromkeys(SECONDS, 1.0)})
        >>> download_told(rounds)
        ''
        >>> download_told(rounds.assign(sim_download_seconds=9.0))
        'The raw downlink takes 75 % of the seconds of sbc, n = 10: --downlink METHOD compresses \
it.'
    """
    sent_raw = rounds["downlink"].fillna("raw") == "raw"
    raw = rounds[sent_raw & ~rounds["dense"].astype(bool)]
    spent = raw.groupby(CELL)[[*SECONDS]].sum()
    shares = spent["sim_download_seconds"] / spent.sum(axis=1)
    if not shares.max() > _DECIDES:
        return ""
    _, label, n, _ = shares.idxmax()
    percent = f"{'up to ' if (shares > _DECIDES).sum() > 1 else ''}{100 * shares.max():.0f} %"
    delay = f"{delay_symbol(rounds)} = {n}"
    return (
        f"The raw downlink takes {percent} of the seconds of {label}, {delay}: "
        "--downlink METHOD compresses it."
    )


@dataclass(frozen=True)
class Bandwidths:
    """The time to a target over bandwidths.

    Attributes:
        rates: (B,) upload and download rate of every client, bits per second.
        seconds: (cells, B); only cells whose every seed reaches the target.
        cells: (cells, 4) the columns `CELL`.
    """

    rates: np.ndarray
    seconds: np.ndarray
    cells: pd.DataFrame

    def methods(self) -> dict[str, np.ndarray]:
        """Each method's time with its best cell at every rate, (B,)."""
        labels = self.cells["label"].to_numpy()
        return {str(name): self.seconds[labels == name].min(axis=0) for name in in_order(labels)}

    def fastest(self) -> list[tuple[float, float, str]]:
        """Which method is fastest where: (from rate, to rate, label), ascending.

        Between two of `rates` the border is where the two methods' lines cross, drawn straight
        over the logarithms of both axes.
        """
        lines = self.methods()
        names, table = list(lines), np.stack(list(lines.values()))
        best = table.argmin(axis=0)
        turns = [0, *(i for i in range(1, len(best)) if best[i] != best[i - 1]), len(best)]
        borders = []
        for i in turns[1:-1]:
            before, after = np.log(table[best[i - 1 : i + 1], i - 1 : i + 1])
            gap = before - after
            share = gap[0] / (gap[0] - gap[1]) if gap[0] != gap[1] else 0.0
            low, high = np.log(self.rates[i - 1 : i + 1])
            borders.append(float(np.exp(low + share * (high - low))))
        edges = [self.rates[0], *borders, self.rates[-1]]
        return [
            (low, high, names[best[i]])
            for (low, high), i in zip(pairwise(edges), turns[:-1], strict=True)
        ]


def times_over_bandwidths(
    results: Results,
    network: NetworkSpec,
    target: float,
    rates: Sequence[float] = BANDWIDTHS,
    flops: Flops | None = None,
) -> Bandwidths:
    """The time to a target of every cell, where all clients have one rate up and down.

    Args:
        results: what `fedsim.load(...)` gave, of one task.
        network: whose latency, compute time and server links hold; its rates are replaced.
        target: as for `to_target`.
        rates: in bits per second, rising.
        flops: as for `priced`.

    Raises:
        UsageError: the results are of several tasks, or no cell reaches the target with every
            seed.
    """
    check_task(results.runs)
    sign = 1 if higher_is_better(results.runs) else -1
    rows = []
    for run in _runs(results, replace(network, name=""), flops):
        reached = np.flatnonzero((sign * run.rounds["metric"] >= sign * target).to_numpy())
        seconds = np.full(len(rates), np.nan)
        if len(reached):
            seconds = ends_over_rates(*run, np.asarray(rates, float))[reached[0]]
        rows.append(run.rounds[CELL].iloc[:1].assign(**{str(k): x for k, x in enumerate(seconds)}))
    table = pd.concat(rows).groupby(CELL).agg(lambda x: x.mean(skipna=False)).dropna()
    table = table[_lost(results.runs).reindex(table.index, fill_value=0) == 0]
    if not len(table):
        raise UsageError(f"--target is {target:g}: no cell reaches it with every seed")
    return Bandwidths(np.asarray(rates, float), table.to_numpy(), table.index.to_frame(index=False))


def _lost(runs: pd.DataFrame) -> pd.Series:
    """How many seeds of each cell failed and were not done again."""
    seeds = runs.groupby([*CELL, "seed"])["status"].agg(lambda x: {*x} == {"failed"})
    return seeds.groupby(level=CELL).sum()


class _Run(NamedTuple):
    """What a price takes of a run, in the order of its arguments."""

    rounds: pd.DataFrame
    clients: pd.DataFrame
    network: NetworkSpec
    federation: int
    seed: int


def _decided_by_the_clock(config: Mapping[str, Any], network: NetworkSpec) -> str:
    """The setting by which simulated time or the links decided what a run trained; empty: none.

    ``network``: on which the run is to be told, without a name: at many rates; a controller that
    looks at the links orders the same work on the network that the run had, however it was typed.
    """
    for key in ("deadline", "ask"):
        if config.get(key) is not None:
            return key
    if "battery=" in str(config.get("network")):
        return "network"
    if config.get("local_seconds") is not None:
        trained = parse(str(config["network"]))
        if any(getattr(trained, name) != getattr(network, name) for name in _COMPUTE):
            return "local_seconds"
    availability = config.get("availability")
    if availability is not None and parse_availability(str(availability)).by_the_clock:
        return "availability"
    sampler = str(config.get("sampler") or UNIFORM)
    if sampler != UNIFORM:
        return "sampler"  # it draws by the clock, or asks clients for what no row of theirs has
    controller = config.get("controller")
    recorded = config.get("network") if network.name else None
    same = recorded is not None and replace(parse(recorded), name=network.name) == network
    if controller is None or same:
        return ""
    try:
        return (
            "controller" if NETWORK in controllers.parse_controller(str(controller)).needs else ""
        )
    except UsageError:  # one of the user's own, which is not known here
        return "controller"


def _unpriced(
    config: Mapping[str, Any], cell: pd.Series, rounds: pd.DataFrame, network: NetworkSpec
) -> str:
    """Why a run has no price on ``network``, a verb and its objects; empty where it has one."""
    if key := _decided_by_the_clock(config, network):
        return f"was run with {key} = {config[key]}: times decided what it trained"
    if "topology=tree" in str(config.get("network")):
        return f"was run with network = {config['network']}: its edge servers sent messages too"
    if network.topology == "allreduce":
        lossless = (cell["method"], cell["downlink"]) == ("raw", "raw")
        everyone = (rounds["clients"] == cell["clients"]).all()
        added_up = lossless and averages(config) and everyone
        if not added_up or config.get("controller") is not None:
            return f"has no time with topology=allreduce: {ALLREDUCE}"
    if "in_flight" in rounds and rounds["in_flight"].notna().any():
        return "is asynchronous: its clients would have sent other messages"
    if "up_key_bits" in rounds and rounds["up_key_bits"].notna().any():
        return "was run with secure aggregation, whose exchanges of keys are in no row"
    return ""


def _runs(results: Results, network: NetworkSpec, count: Flops | None) -> list[_Run]:
    """The runs that are done, with what a price on ``network`` takes; for its name see above.

    ``count``: as ``flops`` of ``priced``.
    """
    runs, by_run = [], dict(list(results.rounds.groupby("run", sort=False)))
    for refused, cause in (
        (network.limited, "its battery decides who trains; leave battery out"),
        (network.overlap, "overlap=on moves messages during training; leave overlap out"),
        (network.tree is not None, "edge servers send messages of their own; leave topology out"),
    ):
        if refused:
            raise UsageError(
                f"--network is {network.name!r}: {cause}, or train with it: finished runs have no "
                "price there"
            )
    if network.lacks_flops and count is None:
        raise UsageError(
            f"--network is {network.name!r}: nobody counts the operations of finished runs here; "
            "give it those of a local iteration, such as flops=0.3GFLOP"
        )
    for name, cell in results.done.iterrows():
        config, folder = results.configs.get(str(name), {}), results.folders[str(name)]
        rounds = by_run[name]
        if cause := _unpriced(config, cell, rounds, network):
            raise UsageError(
                f"{folder} {cause}; it has no price on another network (without --network it is "
                "shown on its own clock)"
            )
        counted = network
        if network.lacks_flops and count is not None:
            counted = replace(network, flops=count(folder))
        federation, seed = int(cell["clients"]), int(cell["seed"])
        runs.append(_Run(rounds, clients_of(folder), counted, federation, seed))
    if not runs:
        raise UsageError(_NONE_DONE)
    return runs
