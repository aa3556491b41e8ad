"""Runs what is next in the list of tables that wait for a GPU, for some minutes.

    python -m experiments.gpu --minutes 8 --data DIR --out FOLDER
    python -m experiments.gpu --list
    python -m experiments.gpu --pack 10000 --data FROM --out DIR

``--pack`` writes a part of CIFAR-10, to take along to a machine. The same command goes on where the
last one stopped. FOLDER has a folder per item with its runs and checkpoints, ``steps.csv``
(milliseconds per local iteration, by which a run's length was chosen) and ``tables.md``.
"""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from experiments.common.tables import table, write_csv
from fedsim import Cell, DataError, Results, UsageError, load, run_shown
from fedsim.ground.files import write_text
from fedsim.tasks import get_task
from fedsim.tasks.pack_cifar import pack

from .items import ITEMS, Item
from .sizing import measured, planned, sized

_LEAVE_SECONDS = 30
"""How long a stopped sweep has to leave its checkpoint."""


def carry_out(
    items: Sequence[Item], minutes: float, device: str, data: str | None, out: Path
) -> bool:
    """Runs the items in order until ``minutes`` are over; whether all have ended."""
    until = time.monotonic() + 60 * minutes
    for item in items:
        folder = out / item.name
        if ended(item, folder):
            continue
        print(f"{item.name}: {item.source}", flush=True)
        milliseconds = measured(item, device, data, out / "steps.csv")
        iterations = planned(item, milliseconds, minutes, folder / "iterations.txt")
        runs = sized(item, iterations, device, data)
        run_shown([Cell(name, config) for name, config in runs.items()], folder, jobs=0)
        left = until - time.monotonic() - _LEAVE_SECONDS
        if left <= 0 or not swept(folder, left):
            return False
    return True


def swept(folder: Path, seconds: float) -> bool:
    """Whether the sweep of ``folder/runs.toml`` ended in time; else it is stopped, and goes on."""
    command = [sys.executable, "-m", "fedsim", "sweep", "--config", str(folder / "runs.toml")]
    sweep = subprocess.Popen([*command, "--out", str(folder), "--jobs", "1"])
    try:
        code = sweep.wait(seconds)
    except subprocess.TimeoutExpired:
        sweep.send_signal(signal.SIGINT)
        try:
            sweep.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            sweep.kill()
            sweep.wait()
        return False
    if code:
        raise UsageError(f"{folder}: the sweep ended with code {code}; see above")
    return True


def ended(item: Item, folder: Path) -> bool:
    """Whether all runs of the item have a summary."""
    return all((folder / "cells" / name / "summary.json").exists() for name in item.runs)


def summary(items: Sequence[Item], out: Path, device: str, images: int) -> pd.DataFrame:
    """A line per run that has ended."""
    lines = []
    for item in items:
        folder = out / item.name
        if not [*folder.glob("cells/*/summary.json")]:
            continue
        results: Results = load(folder)
        for name, run in results.runs.iterrows():
            lines.append(
                {
                    "item": item.name,
                    "run": name,
                    "method": run["method"],
                    "iterations": int(run["iterations"]),
                    "published_iterations": item.published,
                    "training_images": images,
                    "seed": int(run["seed"]),
                    "metric": run["metric"],
                    "ratio_content": run["ratio_content"],
                    "seconds": results.rounds.query("run == @name")["seconds"].sum(),
                    "device": device,
                }
            )
    return pd.DataFrame(lines)


def markdown(frame: pd.DataFrame) -> str:
    """The ended runs as a table."""
    head = (
        "item", "run", "iterations, of published", "images", "score", "content ratio", "seconds",
    )  # fmt: skip
    lines = [
        [
            row["item"],
            row["run"],
            f"{row['iterations']:,} of {row['published_iterations']:,}",
            f"{row['training_images']:,}",
            f"{row['metric']:.4f}",
            f"×{row['ratio_content']:.1f}",
            f"{row['seconds']:.0f}",
        ]
        for row in frame.to_dict("records")
    ]
    return table(head, lines)


def listing(items: Sequence[Item], out: Path) -> str:
    """The list: what each item repeats, how many runs have ended, and their length."""
    lines = []
    for item in items:
        folder = out / item.name
        many = sum((folder / "cells" / n / "summary.json").exists() for n in item.runs)
        chosen = folder / "iterations.txt"
        length = f"{int(chosen.read_text()):,}" if chosen.exists() else "not chosen"
        counted = f"{many} of {len(item.runs)}"
        lines.append([item.name, item.source, counted, length, f"{item.published:,}"])
    return table(("item", "repeats", "runs that ended", "iterations", "published"), lines)


def pack_part(images: int, data: Path, out: Path) -> Path:
    """The first ``images`` training images of CIFAR-10, and a fifth as many test images."""
    with np.load(data / "cifar10.npz", allow_pickle=False) as whole:
        arrays = {name: whole[name] for name in ("train_x", "train_y", "test_x", "test_y")}
        source = str(whole["source"]) if "source" in whole else ""
    if not 10 <= images <= len(arrays["train_x"]):
        most = len(arrays["train_x"])
        raise UsageError(f"--pack is {images}: give a number of images from 10 to {most}")
    part = {n: x[: images if n.startswith("train") else images // 5] for n, x in arrays.items()}
    out.mkdir(parents=True, exist_ok=True)
    pack(out / "cifar10.npz", **part, source=f"the first {images} training images; {source}")
    return out / "cifar10.npz"


def main(arguments: list[str] | None = None) -> int:
    """The command: 0 where all items have ended, 3 where time was over before, 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=8, help="how long to run (default: 8)")
    parser.add_argument("--data", metavar="DIR", help="folder with cifar10.npz")
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=Path("fedsim-results/gpu"))
    parser.add_argument("--device", default="cuda", help="where to train (default: cuda)")
    parser.add_argument("--only", metavar="ITEM,...", help="these items alone")
    parser.add_argument("--list", action="store_true", help="print the list and run nothing")
    parser.add_argument("--pack", metavar="IMAGES", type=int, help="write a part of CIFAR-10")
    flags = parser.parse_args(arguments)
    try:
        items = chosen(flags.only)
        if flags.list:
            print(listing(items, flags.out))
            return 0
        if flags.pack is not None:
            print(pack_part(flags.pack, Path(flags.data or "."), flags.out))
            return 0
        return _run(items, flags)
    except (DataError, UsageError, OSError) as error:
        print(f"experiments.gpu: {error}", file=sys.stderr)
        return 2


def chosen(only: str | None) -> list[Item]:
    """The items that ``--only`` names, in the list's order."""
    names = only.split(",") if only else [*ITEMS]
    for name in names:
        if name not in ITEMS:
            raise UsageError(f"--only is {name!r}: items are {', '.join(ITEMS)}")
    return [item for item in ITEMS.values() if item.name in names]


def _run(items: Sequence[Item], flags: argparse.Namespace) -> int:
    if not flags.minutes > 0:
        raise UsageError(f"--minutes is {flags.minutes:g}: give a number above 0")
    try:
        place = torch.device(flags.device)
    except RuntimeError as error:
        raise UsageError(f"--device is {flags.device!r}: give cpu, cuda, cuda:1, ...") from error
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"--device is {flags.device!r}: torch sees no such GPU here")
    folder = Path(flags.data) if flags.data else None
    images = get_task("cifar_resnet20").load(folder, False).train_count
    done = carry_out(items, flags.minutes, flags.device, flags.data, flags.out)
    frame = summary(items, flags.out, flags.device, images)
    if len(frame):
        write_csv(flags.out / "runs.csv", frame)
        write_text(flags.out / "tables.md", markdown(frame))
        print(markdown(frame))
    print(listing(items, flags.out))
    if not done:
        print("Time was over: the same command goes on.")
    return 0 if done else 3


if __name__ == "__main__":
    sys.exit(main())
