"""``fedsim deploy``: one run through a real SuperLink and SuperNodes on this machine."""

import argparse
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from compressors.grammar import printable
from fedsim.commands import flags as shared
from fedsim.commands.output import print_document, say_on
from fedsim.ground.errors import RunFailed, UsageError
from fedsim.settings.config import SETTINGS, RunConfig

_NOT_HERE = (
    "engine", "workers", "download", "keep_checkpoint", "checkpoint_every", "track", "label",
    "stack", "memory", "memory_as", "network", "availability", "dropout", "ask", "deadline",
    "staleness", "buffer_size", "sampler", "stop_at_joules", "local_seconds",
)  # fmt: skip
"""Settings of other engines, of what only `run` does, and of simulated time."""

_FLOWERS = "most of it Flower's, which asks for messages every 3 s and starts a process for each"


def add_deploy(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "deploy",
        help="do one run through a SuperLink and SuperNodes, all processes on this machine",
        description="Runs one federation through a SuperLink and a SuperNode per client, which it "
        "starts and stops on the loopback interface, without TLS and keys. A "
        "round takes 10 s or more: Flower starts a process for every message and asks for "
        "messages every 3 s.",
    )
    shared.add_config(parser, "settings")
    parser.add_argument("--out", metavar="DIR", help="results (default: fedsim-results/NAME)")
    parser.add_argument("--port", type=int, metavar="INT", help="of the SuperLink; default: free")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    shared.add_settings(parser, skip=_NOT_HERE)
    parser.set_defaults(command=_command, extra="sim")


def _command(flags: argparse.Namespace) -> int:
    from fedsim.commands.run import run_from_flags
    from fedsim.settings.strategies import check_deployed

    check_deployed(flags.strategy)
    config = run_from_flags(flags)  # a wrong value is refused before torch is imported
    check_deployed(config.strategy)
    for name, value in config.flat().items():
        if name in _NOT_HERE and name != "engine" and value != SETTINGS[name].default:
            raise UsageError(f"{flags.config}: {name} is not a setting of `fedsim deploy`")
    config = config.but(engine="flower")
    from rich.console import Console

    from fedsim.show import report
    from fedsim.show.layout import print_whole
    from fedsim.show.tables import summary_table

    out = shared.folder(flags, f"{config.plan.task.name}-deploy", config, config.digest_of)
    tell = Console(stderr=True, quiet=flags.json)
    summary = deploy(config, out, flags.port, tell)
    results = report.summarize(out)
    if flags.json:
        print_document({"out": str(out), **summary})
    else:
        console = Console()
        print_whole(console, summary_table(results.runs, console.width))
        print(printable(f"Results: {out}"))
    return 0


def deploy(config: RunConfig, out: Path, port: int | None, console: Any) -> dict[str, Any]:
    """Runs ``config`` through processes of its own and returns its summary.

    Raises ``UsageError`` before a process is started: the folder is in use or holds something else,
    the port is taken. Raises ``RunFailed`` where a process ends at its start, or the run fails.
    """
    from fedsim.engines.deploy import NODE_FOLDER, Deployment
    from fedsim.results.schema import read_finished
    from fedsim.runs import lock
    from fedsim.runs.folder import as_there, check_kind, examine, tell

    check_kind(out)
    (config,) = as_there([config], out)
    with lock.locked(out):  # and let go: the app's process is the writer
        before = examine(config, out)
        tell([(out, before)])
    if before.summary is not None:  # a kill may have come before the nodes removed their memories
        shutil.rmtree(out / NODE_FOLDER, ignore_errors=True)
        return before.summary

    say = partial(say_on, console)
    # The settings that are not the defaults, as Flower's run config has them.
    settings = {name: x for name, x in config.flat().items() if x != SETTINGS[name].default}
    del settings["engine"]
    for name in {"data", "weights"} & settings.keys():
        settings[name] = str(Path(settings[name]).resolve())
    values = {name.replace("_", "-"): getattr(x, "written", x) for name, x in settings.items()}
    clients, began = config.plan.clients, time.monotonic()
    federation = Deployment(clients, out, port)
    where = f"SuperLink on port {federation.port} and {clients} SuperNodes"
    say(f"starting a {where}; logs: {out / 'logs'}")
    (out / "summary.json").unlink(missing_ok=True)  # of a run that failed

    def at_work() -> bool:
        return lock.is_held(out) or (out / "summary.json").exists()

    with going_on(out):
        with federation:
            say(f"all are there after {time.monotonic() - began:.0f} s; the app starts")
            last_lines = federation.run(values, out, say, at_work).last_lines()
        if not (out / "summary.json").exists():
            raise RunFailed(f"the app ended without results:{last_lines}")
        summary = read_finished(out)
        if summary["status"] != "done":
            raise RunFailed(f"the run failed: {summary['error']} (logs: {out / 'logs'})")
    shutil.rmtree(out / NODE_FOLDER, ignore_errors=True)
    say(f"{summary['seconds'] / summary['rounds']:.1f} s per round, {_FLOWERS}")
    return summary


@contextmanager
def going_on(out: Path) -> Iterator[None]:
    """Says of what ends a run where the same command goes on."""
    from fedsim.results.schema import read_finished
    from fedsim.runs import checkpoint

    try:
        yield
    except RunFailed as error:
        if (out / "summary.json").exists() and read_finished(out)["status"] == "done":
            raise RunFailed(f"{error}\nthe run is done: the same command shows it") from error
        place = checkpoint.last(out)
        number = 1 if place is None else int(place.rpartition("-")[2]) + 1
        raise RunFailed(f"{error}\nthe same command goes on with round {number}") from error
