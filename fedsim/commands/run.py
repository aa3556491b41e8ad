"""``fedsim run``: one run."""

import argparse
from pathlib import Path
from typing import Any

from compressors.grammar import printable
from fedsim.commands import flags as shared
from fedsim.commands.output import add_dry_run, add_open, open_page, print_document, print_estimates
from fedsim.ground.errors import UsageError
from fedsim.settings import trust_check
from fedsim.settings.config import TABLE, RunConfig, default_of, flat_settings, over, run_from_flat
from fedsim.settings.versions import read_versioned


def add_run(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "run",
        main=shared.MAIN,
        help="do one run",
        description="Trains one federation and counts every bit. The same command resumes a "
        "stopped run.",
    )
    shared.add_config(parser, "settings")
    parser.add_argument("--out", metavar="DIR", help="results (default: fedsim-results/NAME)")
    parser.add_argument(
        "--ray-address", metavar="ADDRESS", help="a running Ray cluster, for --engine ray or flower"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_open(parser)
    shared.add_table(parser, seeds=False)
    add_dry_run(parser)
    shared.add_settings(parser)
    parser.set_defaults(command=_command, extra="sim")


def _command(flags: argparse.Namespace) -> int:
    config = run_from_flags(flags)  # a wrong value is refused before torch is imported
    columns = shared.columns(flags, [config.plan.task.metric_name])
    if flags.dry_run:
        return print_estimates({"run": config}, 1, flags.json)
    from fedsim.runs.progress import Bars, Named, short_rounds
    from fedsim.runs.run import run
    from fedsim.settings.grids import Cell, run_name
    from fedsim.settings.masks import much_forgotten

    former = f"{config.plan.task.name}-run"
    out = shared.folder(flags, run_name(config), config, config.digest_of, former)
    name = Cell.of(config).name
    bars = Bars({name: config.plan.rounds}, config.plan.task.metric_name, quiet=flags.json)
    with bars:
        bars.say(short_rounds([config]))
        bars.say(much_forgotten([config], [config.plan]))
        shown = [Named(name, bars)]
        done = run(config, out, progress=False, callbacks=shown, ray_address=flags.ray_address)
    if not bars.trained:
        bars.say(f"Nothing to train: {out} holds this run, finished. Another --out runs it again.")
    from rich.console import Console

    from fedsim.show import report  # which needs pandas, after the training
    from fedsim.show.layout import print_whole
    from fedsim.show.tables import summary_table

    results = report.summarize(out)
    if flags.json:
        print_document({"out": str(out), **done.summary})
    else:
        console = Console()
        print_whole(console, summary_table(results.runs, console.width, columns))
        print(printable(f"Results: {out}"))
        print(printable(f"Report:  {out / 'report.html'}"))
    if flags.open:
        open_page(out / "report.html")
    return 0


def run_from_flags(flags: argparse.Namespace) -> RunConfig:
    """The run that the flags ask for; flags go over the settings of a TOML file."""
    written = read_versioned(Path(flags.config)) if flags.config else {}
    if TABLE in written:
        raise UsageError(f"{flags.config}: it lists cells, which `fedsim sweep --config` runs")
    typed = shared.typed_settings(flags)
    values = over(flat_settings(written, flags.config), typed)
    if "temporal" not in values and isinstance(budget := values.get("iterations"), int):
        values["temporal"] = min(default_of("temporal"), max(1, budget))  # a short run is one round
    trust_check.check_trust(values, flags.config, shared.trusted(flags))
    return run_from_flat(values)
