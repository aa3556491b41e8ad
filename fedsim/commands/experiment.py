"""``fedsim experiment``: a published table or figure, again.

Experiments live in the folder ``experiments`` of a checkout, one folder each with an
``experiment.toml`` (title, source) and a ``run.py`` that holds ``EXPERIMENT``. They use
fedsim's public API; fedsim knows only their folder.
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from compressors.grammar import printable
from fedsim.ground.errors import UsageError, unknown
from fedsim.settings.versions import read_settings_toml

SCALES = ("smoke", "short", "paper")


def home() -> Path | None:
    """The folder of experiments: that of fedsim's checkout, or one in the current folder."""
    places = (Path(__file__).parents[2] / "experiments", Path("experiments"))
    return next((place for place in places if place.is_dir()), None)


def experiments() -> list[dict[str, str]]:
    """Every experiment that can be run from here."""
    folder = home()
    files = sorted(folder.glob("*/experiment.toml")) if folder else []
    return [
        {"name": file.parent.name, "kind": "experiment", **read_settings_toml(file)}
        for file in files
    ]


def add_experiment(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "experiment",
        help="rerun a published table or figure (see `fedsim list experiments`)",
        description="Reruns a published table or figure of a checkout's experiments/, and writes "
        "tables, figures and the settings of every run. The same command resumes a stopped one.",
    )
    parser.add_argument("name", metavar="NAME", help="an experiment's name")
    parser.add_argument(
        "--scale",
        choices=SCALES,
        default="short",
        help="smoke: seconds; short: what two cores finish in half an hour (like-for-like and "
        "crossing: hours, see their pages); paper: the published length (default: short)",
    )
    parser.add_argument("--only", metavar="ROW,...", help="only these rows")
    parser.add_argument(
        "--add",
        metavar="METHOD",
        default="",
        help="a further method's text, with {p} for its fraction, and settings behind it "
        "('... --strategy nesterov'); the rows are not run again (like-for-like)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="cells at the same time (default: 1)")
    parser.add_argument("--data", metavar="DIR", help="folder with data sets")
    parser.add_argument("--out", metavar="DIR", help="results (default: fedsim-results/NAME-SCALE)")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="train nothing: list the runs and write runs.toml, which `fedsim sweep --config` "
        "runs; where runs are chosen by others, say how many there will be",
    )
    parser.set_defaults(command=_command, extra="sim")


def load_experiment(folder: Path, name: str) -> ModuleType:
    """The ``run.py`` of an experiment, as ``experiments.NAME.run`` wherever the folder lies."""
    if not (folder / name / "run.py").exists():
        raise UsageError(f"experiment {name!r} has no run.py")
    if "experiments" not in sys.modules:
        place = [str(folder)]
        spec = importlib.util.spec_from_file_location(
            "experiments", folder / "__init__.py", submodule_search_locations=place
        )
        assert spec is not None
        sys.modules["experiments"] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"experiments.{name}.run")


def _command(flags: argparse.Namespace) -> int:
    """Runs an experiment; with ``--dry-run`` the experiment only lists its runs."""
    if flags.jobs < 1:
        raise UsageError(f"--jobs is {flags.jobs}: give a number above 0")
    folder = home()
    if folder is None:
        raise UsageError("experiments are part of a checkout of fedsim: run this from there")
    names = [row["name"] for row in experiments()]
    if flags.name not in names:
        raise UsageError(unknown("experiment", flags.name, names))
    experiment = load_experiment(folder, flags.name).EXPERIMENT
    out = Path(flags.out or Path("fedsim-results") / f"{flags.name}-{flags.scale}")
    flags.stop.folder = out
    only = flags.only.split(",") if flags.only else None
    if flags.dry_run and experiment.cells is None is experiment.plan:  # it would train
        raise UsageError(
            f"--dry-run: {flags.name} has no list of runs before they are carried out; see its "
            "README"
        )
    jobs = 0 if flags.dry_run else flags.jobs
    code = int(experiment.main(flags.scale, only, out, jobs, flags.data, flags.add))
    if flags.dry_run:
        return 0
    print(printable(f"Results: {out}"))
    return code
