"""``fedsim price``: finished runs on the clock of a network, without training again."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compressors.grammar import printable
from fedsim.commands.output import print_document, records
from fedsim.ground import units
from fedsim.ground.errors import writable
from fedsim.network.presets import PRESETS
from fedsim.results.neutral import csv_text

if TYPE_CHECKING:
    import pandas as pd

    from fedsim.show.times import Bandwidths

_NETWORK = (
    f"{', '.join(PRESETS)}; settings such as 'up=lognormal(5Mbit, 1), down=20Mbit, latency=50ms, "
    "compute=2*measured, server_up=1Gbit, coding=measured'; a preset with settings, such as 'lora, "
    "framing=on' (the time of whole messages, and not of payloads); or a TOML file of them"
)


def add_price(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "price",
        help="how long finished runs take on a network, and which method is fastest",
        description="Computes how long finished runs would take on a network, without training "
        "again. The time per iteration is what the run measured, unless compute= sets it. Without "
        "--network, each run is shown on the clock that it ran with.",
    )
    parser.add_argument("folders", metavar="DIR", nargs="+", help="what run or sweep wrote")
    parser.add_argument(
        "--network",
        metavar="NETWORK",
        action="append",
        default=[],
        help=f"a network; may be given several times (default: each run's own): {_NETWORK}",
    )
    parser.add_argument(
        "--target",
        metavar="METRIC",
        type=float,
        help="tell the time to this metric, such as 0.98, and compare methods over bandwidths",
    )
    parser.add_argument("--out", metavar="DIR", help="write times.csv and figures there")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=_command, extra="report")


def _command(flags: argparse.Namespace) -> int:
    from rich.console import Console

    from fedsim.network.spec import parse
    from fedsim.results.labels import delay_symbol
    from fedsim.results.load import load_results
    from fedsim.search.goal import Goal
    from fedsim.show.inputs import check_task
    from fedsim.show.layout import print_whole
    from fedsim.show.style import higher_is_better, metric_name
    from fedsim.show.times import download_told, own_times, priced, times_over_bandwidths, to_target

    networks = [parse(text) for text in flags.network]
    results = load_results(*map(Path, flags.folders))
    if flags.target is not None or flags.out is not None:  # a target and a figure are of one
        check_task(results.runs)
    metric = metric_name(results.runs)
    if flags.target is not None:  # refuses one that no model can have
        Goal(higher_is_better(results.runs), metric, target=flags.target)
    if flags.out is not None:
        with writable("--out", flags.out):
            Path(flags.out).mkdir(parents=True, exist_ok=True)
    target = float("nan") if flags.target is None else flags.target
    rounds = {network.name: priced(results, network, run_flops) for network in networks}
    if not networks:
        rounds = dict([own_times(results)])
    tables = {name: to_target(frame, target, results.runs) for name, frame in rounds.items()}
    across, times = None, next(iter(tables.values()))
    if networks and flags.target is not None and (times["reached"] == times["seeds"]).any():
        across = times_over_bandwidths(results, networks[0], flags.target, flops=run_flops)
    if flags.out is not None:
        _write(Path(flags.out), rounds, tables, across, flags.target)
    if flags.json:
        print_document(
            {
                "networks": {name: records(table) for name, table in tables.items()},
                "fastest": across.fastest() if across else [],
            }
        )
        return 0
    console, symbol = Console(), delay_symbol(results.runs)
    for name, table in tables.items():
        layout = _network_table(table, name, flags.target, metric, not networks, symbol, console)
        print_whole(console, layout)
        if downlink := download_told(rounds[name]):
            console.print(downlink, highlight=False)
    if networks and flags.target is not None:
        console.print(fastest_told(across, networks[0].name), highlight=False)
    if flags.out is not None:
        print(printable(f"Written: {flags.out}"))
    return 0


def run_flops(folder: Path) -> float:
    """The floating-point operations of a local iteration of a run, counted on its task's data."""
    from fedsim.settings.config import from_toml

    config = from_toml(folder / "config.toml")
    key = config.plan.task.written, config.plan.batch_size, config.training.precision
    if key not in _COUNTED:
        from fedsim.federation.clientdata import ClientData
        from fedsim.federation.flops import iteration_flops
        from fedsim.federation.trainer import Trainer

        _COUNTED[key] = iteration_flops(Trainer(config, ClientData.of(config)))
    return _COUNTED[key]


_COUNTED = dict[tuple[str, int, str], float]()
"""By task, samples a batch and precision."""


def _network_table(
    table: "pd.DataFrame",
    name: str,
    target: float | None,
    metric: str,
    clocked: bool,
    symbol: str,
    console: Any,
) -> Any:
    """A network's table; ``clocked``: the runs went by that clock themselves."""
    from fedsim.show.layout import text_table

    tasks, rows = table["task"].nunique() > 1, []
    for cell in table.to_dict("records"):
        texts = {"task": cell["task"]} if tasks else {}
        texts |= {
            "method": cell["label"],
            symbol: str(cell["temporal"]),
            "p": units.plain(cell["gradient"]),
            "whole run": units.duration(cell["sim_seconds"]),
        }
        if "energy_joules" in table:
            texts["energy"] = f"{cell['energy_joules']:.4g} J"
        if target is not None:
            reached = units.duration(cell["target_seconds"]) or "not reached"
            texts[f"to {metric} {target:g}"] = reached
            texts["seeds there"] = f"{cell['reached']} of {cell['seeds']}"
        rows.append(texts)
    return text_table(
        rows,
        console.width,
        names=("task", "method"),
        keys=3 + tasks,
        title=f"Simulated time on {name}",
        caption="As the runs went, by their own clocks."
        if clocked
        else "Computed from message lengths and the time per iteration; nothing is trained.",
    )


def fastest_told(across: "Bandwidths | None", network: str) -> str:
    """The sentence on the fastest method at each rate, which is the same up and down.

    ``network``: whose latency, compute time and server links hold.
    """
    if across is None:
        return "No cell comes to the target with every seed: there is nothing to compare."
    spans, rates = across.fastest(), f"if rates up and down were equal, else on {network}"
    if len(spans) == 1:
        return f"Fastest to the target at every rate, {rates}: {spans[0][2]}."
    first, *middle, last = spans
    parts = [f"up to {_rate(first[1])} {first[2]}"]
    parts += [f"from {_rate(low)} to {_rate(high)} {name}" for low, high, name in middle]
    return f"Fastest to the target, {rates}: {'; '.join(parts)}; from {_rate(last[0])} {last[2]}."


def _rate(rate: float) -> str:
    return f"{units.bits(rate)}/s"


def _write(
    out: Path,
    rounds: "dict[str, pd.DataFrame]",
    tables: "dict[str, pd.DataFrame]",
    across: "Bandwidths | None",
    target: float | None,
) -> None:
    import pandas as pd

    from fedsim.ground.files import write_text
    from fedsim.show.figures import bandwidths_chart, over_time
    from fedsim.show.plot.paper import drawn, save, without_rc

    joined = pd.concat([table.assign(network=name) for name, table in tables.items()])
    write_text(out / "times.csv", csv_text(joined))
    with without_rc():
        for place, (name, frame) in enumerate(rounds.items(), start=1):
            number = f"-{place}" if len(rounds) > 1 else ""
            save(drawn(over_time(frame, name, target)), out / f"time{number}.png")
        if across is not None and target is not None:
            frame = next(iter(rounds.values()))
            save(drawn(bandwidths_chart(across, frame, target)), out / "bandwidth.png")
