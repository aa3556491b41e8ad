"""The environment of a run: versions and kind of machine, without its name or paths."""

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fedsim.ground.version import VERSION

PACKAGE = "fedsim-lab"
RECORDED_PACKAGES = (
    "torch",
    "torchvision",
    "flwr",
    "ray",
    "numba",
    "numpy",
    "pandas",
    "scikit-learn",
    "flwr-datasets",
)


def describe_environment() -> dict[str, Any]:
    """Python, operating system, processor, cores, the versions of ``RECORDED_PACKAGES``."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line for line in file if line.startswith("model name")]
    except OSError:
        names = []
    processor = names[0].split(":", 1)[1].strip() if names else platform.processor()
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": processor,
        "cores": os.cpu_count(),
        "packages": {PACKAGE: VERSION} | {name: _version(name) for name in RECORDED_PACKAGES},
    }


def described() -> str:
    """The version of fedsim, with a remark where it is a checkout that is not installed."""
    return VERSION + ("" if _version(PACKAGE) else " (a checkout that is not installed)")


@cache  # the lookup reads files, and a sweep asks once per cell
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
