"""``fedsim doctor``: what there is on this machine, and what to do about what is not."""

import argparse
from dataclasses import asdict
from typing import Any

from compressors.grammar import printable
from fedsim.commands.output import print_document
from fedsim.ground.errors import UsageError

_WIDTH = 16


def add_doctor(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "doctor",
        help="say what this machine has for runs, and what to do about the rest",
        description="Prints what this machine has for runs: versions, GPU, compiler, data sets, "
        "disk, cores and memory, and what to do about what is missing.",
    )
    parser.add_argument(
        "--device",
        default="cpu",
        metavar="DEVICE",
        help="also look whether messages made on a GPU (cuda, cuda:1, ...) have "
        "the host's bytes, and how fast it selects",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=_command)


def _command(flags: argparse.Namespace) -> int:
    """0 where runs work on this machine, 1 where something is missing that every run needs."""
    kind, _, number = flags.device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise UsageError(f"--device is {flags.device!r}: give cpu, cuda, cuda:1, ...")
    if flags.json and kind == "cuda":
        raise UsageError("--json goes with the machine alone: leave --device out")
    if kind == "cuda":
        _usable(flags.device)
    from fedsim.runs.machine import machine

    parts = machine()
    if flags.json:
        print_document([asdict(part) for part in parts])
    else:
        for part in parts:
            print(printable(f"{part.name:{_WIDTH}}{part.status}"))
            if part.advice:
                print(printable(f"{'':{_WIDTH}}-> {part.advice}"))
    lacking = [part.name for part in parts if part.lacking]
    if not flags.json:
        print(
            f"Runs do not work here: see {', '.join(lacking)}."
            if lacking
            else "Runs work on this machine."
        )
    if kind == "cuda":
        import torch

        from compressors.devicecheck import report

        return max(int(bool(lacking)), report(torch.device(flags.device)))
    return int(bool(lacking))


def _usable(device: str) -> None:
    """Raises ``UsageError`` where torch cannot use ``device``; before any other work."""
    try:
        import torch

        from compressors.devicecheck import absent
    except ImportError as error:
        raise UsageError(
            f"--device is {device!r}: it needs numpy, torch and numba: {error}"
        ) from error
    if cause := absent(torch.device(device)):
        raise UsageError(f"--device is {device!r}: there is no CUDA here: {cause}")
