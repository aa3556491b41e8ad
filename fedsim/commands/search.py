"""``fedsim search``: which method, n, p, coder and rate are best for a task and a budget."""

import argparse
import sys
from functools import partial
from typing import Any

from compressors.grammar import printable
from fedsim.commands import flags as shared
from fedsim.commands.output import add_open, open_page, print_document, records, say_on
from fedsim.ground.errors import UsageError

_SEARCHED = ("method", "temporal", "local_epochs", "local_seconds", "gradient", "rounds",
             "controller", "stop_at_bits", "stop_at_joules", "evaluate_every", "label", "engine",
             "workers", "gpus_per_client", "validation")  # fmt: skip


def add_search(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "search",
        main=shared.MAIN,
        help="find the best method, n, p, coder and rate for a task",
        description="Searches method, delay n, fraction p, coder and learning rates by training: "
        "the best metric within --budget, the fewest bits to --target, or, with neither, the front "
        "of both. Scores come from a validation part of the training samples; the best settings "
        "run again on fresh seeds and are scored on the held-out samples. Every method gets the "
        "same number of trials and a row in the result. --lr and --server-lr are where the search "
        "of rates begins. With --budget-of total bits count both ways, and the "
        "downlink is searched, too, unless --downlink gives it. The same command goes on where it "
        "was stopped.",
    )
    parser.add_argument(
        "--budget", metavar="BITS", help="bits of a client (--budget-of), such as 2Mbit"
    )
    parser.add_argument("--target", type=float, metavar="METRIC", help="the metric to reach")
    parser.add_argument(
        "--time",
        metavar="TIME",
        help="for everything but the preparation, finalists included, such as 90s, 30min or 2h "
        "(default: 10min, if --trials is not given)",
    )
    parser.add_argument(
        "--trials",
        type=int,
        metavar="INT",
        help="how many, in place of --time; a multiple of the number of methods gives each the "
        "same number",
    )
    parser.add_argument(
        "--methods",
        metavar="TEXT;...",
        default="published",
        help="published: each as its paper has it, and raw; all: other sums of parts too; or texts "
        "such as 'sbc; topk({p}) | cnat' (default: published)",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=3,
        metavar="INT",
        help="fresh seeds on which the finalists run (default: 3)",
    )
    parser.add_argument(
        "--validation",
        type=float,
        metavar="FLOAT",
        help="fraction of the training samples on which trials are scored (default: 0.2)",
    )
    parser.add_argument("--out", metavar="DIR", help="results (default: fedsim-results/NAME)")
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="INT",
        default=1,
        help="runs at the same time, each in a process of its own (default: 1: in this process)",
    )
    parser.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="run the trials on a Ray cluster; its machines need not see --out",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_open(parser)
    shared.add_settings(parser, skip=_SEARCHED)
    parser.set_defaults(command=_command, extra="search")


def _command(flags: argparse.Namespace) -> int:
    """Searches and reports; 1 where no trial has an evaluation that counts."""
    from fedsim.settings.config import run_from_flat
    from fedsim.settings.strategies import adds_codes

    if flags.strategy is not None and adds_codes(flags.strategy):
        raise UsageError(
            f"--strategy is {flags.strategy!r}, which takes methods of its own: a search compares "
            "methods that any strategy takes, raw sending among them"
        )
    base = run_from_flat({"method": "raw", "temporal": 1} | shared.typed_settings(flags))
    from rich.console import Console  # a wrong value is refused before torch is imported

    from fedsim.search import tables
    from fedsim.search.goal import SATURATED
    from fedsim.search.record import finalists
    from fedsim.search.search import search
    from fedsim.show.layout import print_whole

    goal = flags.budget or ("front" if flags.target is None else f"{flags.target:g}")
    out = shared.folder(flags, f"{base.plan.task.name}-search-{goal}", base, base.digest_of)

    result = search(
        base, out, budget=flags.budget, target=flags.target, methods=flags.methods,
        time=flags.time, trials=flags.trials, seeds=flags.seeds, jobs=flags.jobs,
        ray_address=flags.ray_address, rows=flags.rows,
        say=partial(say_on, Console(stderr=True)),
    )  # fmt: skip
    if flags.open:
        open_page(result.out / "report.html")
    if flags.json:
        print_document(
            {
                "out": str(result.out),
                "goal": result.goal.words(),
                "finalists": records(finalists(result.finalists, result.goal)),
                "methods": records(result.methods),
                "importance": result.importance,
                "importance_left_out": result.too_few,
                "left_out": result.left,
                "saturated": result.saturated,
                "finals": result.finals,
                "trials": records(result.trials),
            }
        )
        return int(result.winner is None)
    console = Console()
    title = result.goal.words()
    texts = tables.methods_table(result.methods, result.goal)
    title, note = title[0].upper() + title[1:], tables.METHODS_CAPTION
    parts = [tables.for_terminal(texts, console.width, title, note)]
    if result.finalists:
        texts = tables.finalists_table(finalists(result.finalists, result.goal), result.goal)
        parts.append(tables.for_terminal(texts, console.width, "Finalists", tables.CAPTION))
        print_whole(console, *parts)
    else:
        print("No trial has an evaluation that counts: nothing to rank.", file=sys.stderr)
    if result.saturated:
        console.print(SATURATED.format(name=result.goal.name), highlight=False)
    for line in tables.shares(result.importance):
        console.print(f"What mattered for {line}", highlight=False)
    if result.too_few:
        console.print(result.too_few, highlight=False)
    print(f"Finals:  {result.finals}")
    if result.winner is not None:
        print(printable(f"Again:   {result.again}"))
    print(printable(f"Results: {result.out}"))
    print(printable(f"Report:  {result.out / 'report.html'}"))
    return int(result.winner is None)
