"""Check of this machine for runs, with advice on what it lacks: ``fedsim doctor``."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from compressors.usercode import typed
from fedsim.ground.extras import install
from fedsim.ground.files import cores, ram
from strategies import quiet

NEEDED = ("numpy", "torch", "numba", "flwr", "pandas", "pyarrow")
TESTED = {"flwr": (1, 41)}
"""The newest minor release that the tests ran with, of a package that makes no promises."""
_INSTALL = "install fedsim's dependencies: `make install`, or `pip install 'fedsim-lab[all]'`"
_LEAST_DISK, _LEAST_MEMORY = 2.0, 1.0  # GiB

DATA = {
    "MNIST": ("MNIST/raw",),
    "Fashion-MNIST": ("FashionMNIST/raw",),
    "CIFAR-10": ("cifar10.npz", "cifar-10-batches-py"),
    "ImageNet": ("imagenet/train", "train"),
    "Shakespeare": ("shakespeare",),
    "WikiText-2 or Penn Treebank": ("ptb", "wikitext-2"),
    "MovieLens": ("ml-20m", "ml-1m", "ml-latest-small"),
}
"""The names of each data set's files or folder in the data folder: docs/tasks.md."""


@dataclass(frozen=True)
class MachinePart:
    """One part of a machine."""

    name: str
    status: str  # what was found
    advice: str = ""  # what to do about it, one sentence; empty where nothing is to be done
    lacking: bool = False  # whether every run needs it and it is missing


def machine() -> list[MachinePart]:
    """Every part, in the order of the screen; a part that cannot be looked at says why."""
    parts = []
    for name, look in LOOKS.items():
        try:
            parts.append(look(name))
        except Exception as error:
            parts.append(MachinePart(name, typed(error), "look at what this error names"))
    return parts


def _fedsim(name: str) -> MachinePart:
    from fedsim.runs.environment import described

    return MachinePart(name, described())


def _package(name: str) -> MachinePart:
    """A package that every run imports: it is imported."""
    try:
        installed = version(name)
    except PackageNotFoundError:
        return MachinePart(name, "missing", _INSTALL, True)
    try:
        module = import_module(name)
    except Exception as error:  # a library of the system that it lacks, a damaged installation
        reason = typed(error).splitlines()[0]
        again = f"install it again: `pip install --force-reinstall {name}=={installed}`"
        return MachinePart(name, f"{installed}, cannot be imported ({reason})", again, True)
    if name in TESTED and release(installed) > (tested := TESTED[name]):
        last = ".".join(map(str, tested))
        newer = f"{installed}, newer than {last}, the newest that fedsim was tested with"
        advice = f"if runs fail, install that: `pip install '{name}=={last}.*'`"
        return MachinePart(name, newer, advice)
    if name != "torch":
        return MachinePart(name, installed)
    build = module.version.cuda
    kind = "build for the CPU" if build is None else f"CUDA {build}"
    return MachinePart(name, f"{installed} ({kind})")


def release(version: str) -> tuple[int, int]:
    """The minor release of a version: (1, 41) of 1.41.0."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def _ray(name: str) -> MachinePart:
    if find_spec(name) is None:
        advice = f"install (`{install('ray')}`) for --engine ray or flower, for clusters and "
        return MachinePart(name, "missing", advice + "for --jobs on a GPU; other runs do without")
    return MachinePart(name, version(name))


def _gpu(name: str) -> MachinePart:
    import torch

    from compressors.devicecheck import absent

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return MachinePart(name, ", ".join(names), "`fedsim doctor --device cuda` looks at it")
    if shutil.which("nvidia-smi"):  # there may be one that torch does not see
        return MachinePart(name, "none that torch can use", absent(torch.device("cuda")))
    return MachinePart(name, "none: runs train on the CPU")


def _triton(name: str) -> MachinePart:
    import torch

    from compressors.kernels.gpu.language import interpreted
    from compressors.kernels.gpu.tried import cause

    has_gpu = torch.cuda.is_available()
    installed = version(name) if find_spec(name) else "missing"
    if not has_gpu:
        if installed != "missing" and interpreted():
            installed += ", interpreted: " + (cause(torch.device("cpu")) or "a kernel runs")
        return MachinePart(name, f"{installed}; nothing to do without a GPU")
    reason = cause(torch.device("cuda"))
    if reason:
        mend = "mend that: until then the CPU makes all messages. Triton 3.4 or newer, which "
        mend += "torch's CUDA builds bring, needs a C compiler and TRITON_INTERPRET unset"
        return MachinePart(name, f"{installed}, does not work: {reason}", mend)
    return MachinePart(name, f"{installed}, a kernel runs")


def _compiler(name: str) -> MachinePart:
    names = [compiler] if (compiler := os.environ.get("CC")) else ["cc", "gcc"]
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        advice = "install gcc where updates lie on a GPU: Triton needs it; other runs do without"
        return MachinePart(name, "none", advice)
    return MachinePart(name, path)


def _kernels(name: str) -> MachinePart:
    from compressors.kernels.segments.choose import variance

    folder = Path(str(variance.stats.cache_path))
    if any(folder.glob("*.nbi")):
        return MachinePart(name, "ready")
    advice = "the first run compiles them, which takes a minute or two, and keeps them for the next"
    return MachinePart(name, "not compiled yet", advice)


def _data(name: str) -> MachinePart:
    setting = os.environ.get("FEDSIM_DATA")
    if not setting:
        return MachinePart(
            name,
            "digits (comes with scikit-learn); $FEDSIM_DATA is not set",
            "set FEDSIM_DATA to a folder of data sets, or give --data, for other tasks: "
            "docs/tasks.md",
        )
    folder = Path(setting)
    if not folder.is_dir():
        lost = f"digits; $FEDSIM_DATA is {setting}, which is not a folder"
        return MachinePart(name, lost, "set FEDSIM_DATA to the folder that holds the data sets")
    present = [title for title, paths in DATA.items() if any((folder / x).exists() for x in paths)]
    lacking = [title for title in DATA if title not in present]
    advice = f"for {', '.join(lacking)} see docs/tasks.md" if lacking else ""
    return MachinePart(name, f"{', '.join(['digits', *present])} (in {setting})", advice)


def _disk(name: str) -> MachinePart:
    left = shutil.disk_usage(Path.cwd()).free / 2**30
    few = left < _LEAST_DISK
    advice = "free some space, or give --out a folder on another disk" if few else ""
    return MachinePart(name, f"{left:.1f} GiB in this folder", advice)


def _cores(name: str) -> MachinePart:
    import torch

    threads = torch.get_num_threads()
    return MachinePart(name, f"{cores()} (torch: {threads} threads; a worker of a run: one)")


def _memory(name: str) -> MachinePart:
    total, left = (x / 2**30 for x in ram())
    few = left < _LEAST_MEMORY
    advice = "end what else runs here, or give fewer --workers and --jobs" if few else ""
    return MachinePart(name, f"{left:.1f} of {total:.1f} GiB free", advice)


def _telemetry(name: str) -> MachinePart:
    """Flower sends with "1" alone, and Ray without its variable or with "1"."""
    flower, ray = "FLWR_TELEMETRY_ENABLED", "RAY_USAGE_STATS_ENABLED"
    on = [
        f"{title}'s ({variable}={quiet.ENVIRONMENT[variable]} in the environment)"
        for title, variable in (("Flower", flower), ("Ray", ray))
        if quiet.ENVIRONMENT.get(variable) == "1"
    ]
    if quiet.FLOWER_FIRST and flower not in quiet.ENVIRONMENT:
        on.append(f"Flower's (flwr was imported before fedsim, without {flower})")
    values = {name: quiet.ENVIRONMENT.get(name) for name in (flower, ray)}
    lacking = [f"{name}=0" for name, value in values.items() if value in (None, "1")]
    advice = f"`export {' '.join(lacking)}` turns it off" if lacking else ""
    if on:
        return MachinePart(name, f"on: {', '.join(on)}", advice)
    if lacking:
        advice += " in Flower's programs and where flwr is imported before fedsim, too"
        off = f"off: fedsim has set {' '.join(lacking)} for this process"
        return MachinePart(name, off, advice)
    return MachinePart(name, f"off: {flower}={quiet.ENVIRONMENT[flower]} in the environment")


LOOKS: dict[str, Callable[[str], MachinePart]] = {
    "fedsim": _fedsim,
    "Python": lambda name: MachinePart(name, sys.version.split()[0]),
    **dict.fromkeys(NEEDED, _package),
    "ray": _ray,
    "telemetry": _telemetry,
    "GPU": _gpu,
    "triton": _triton,
    "C compiler": _compiler,
    "compiled loops": _kernels,
    "data sets": _data,
    "disk": _disk,
    "cores": _cores,
    "memory": _memory,
}
