"""The peers' environments, one folder each in ``.peers``; what cannot be made says why.

    python benchmarks/peers/environments.py [--only pfl blazefl]

Flower is one of fedsim's own packages. pfl lies beside fedsim's packages, so that both use the same
torch; BlazeFL wants Python 3.12 and gets a torch of the same version. Makes some 6 GB of files.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".peers"


@dataclass(frozen=True)
class Environment:
    """Where a peer runs.

    Args:
        name: of the peer, and of its folder.
        packages: what pip installs.
        shared: whether fedsim's own packages are seen there; else it has a torch of its own.
        python: the least version of Python that it takes; None: fedsim's Python.
        module: what can be imported when all is well.
    """

    name: str
    packages: tuple[str, ...]
    shared: bool
    python: tuple[int, int] | None
    module: str

    @property
    def executable(self) -> Path:
        """Its Python."""
        return FOLDER / self.name / "bin" / "python"

    @property
    def missing(self) -> str:
        """Why the peer cannot be timed; empty where it can."""
        why = FOLDER / f"{self.name}.txt"
        if why.exists():
            return why.read_text(encoding="utf-8").strip()
        return "" if self.executable.exists() else "not installed: `make peers`"

    def make(self) -> str:
        """Installs it; returns why it could not be, and leaves that in a file."""
        why = FOLDER / f"{self.name}.txt"
        why.parent.mkdir(exist_ok=True)
        why.unlink(missing_ok=True)
        try:
            self._install()
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(FOLDER / self.name, ignore_errors=True)
            said = (getattr(error, "stderr", None) or str(error)).strip()
            why.write_text(said.splitlines()[-1] + "\n", encoding="utf-8")
        return self.missing

    def _install(self) -> None:
        shutil.rmtree(FOLDER / self.name, ignore_errors=True)
        python = sys.executable if self.python is None else newer_python(self.python)
        _called(python, "-m", "venv", str(FOLDER / self.name))
        packages = [*self.packages, f"numpy=={version('numpy')}"]
        if self.shared:
            code = "import site; print(site.getsitepackages()[0])"
            place = _called(str(self.executable), "-c", code).strip()
            Path(place, "fedsim.pth").write_text(sysconfig.get_path("purelib") + "\n")
        else:
            packages.append(f"torch=={version('torch').partition('+')[0]}")
        _called(str(self.executable), "-m", "pip", "install", "--quiet", *packages)
        _called(str(self.executable), "-c", f"import torch, {self.module}")


ENVIRONMENTS = {
    "pfl": Environment("pfl", ("pfl==0.6.0",), True, None, "pfl.aggregate.simulate"),
    "blazefl": Environment(
        "blazefl",
        ("blazefl[contrib,reproducibility]==2.0.3",),
        False,
        (3, 12),
        "blazefl.contrib",
    ),
}


def newer_python(least: tuple[int, int]) -> str:
    """A Python of at least this version and below 3.14, from the path or from pyenv.

    Raises ``OSError`` where there is none.
    """
    versions = [f"3.{minor}" for minor in range(least[1], 14)]
    for name in versions:
        if found := shutil.which(f"python{name}"):
            try:
                _called(found, "-c", "import ssl")
                return found
            except subprocess.CalledProcessError:  # pyenv's stand-in for a version not chosen
                continue
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for name in versions:
        for folder in sorted(root.glob(f"{name}.*")):
            return str(folder / "bin" / "python")
    raise OSError(f"no Python of {' or '.join(versions)} was found")


def _called(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Makes every environment and says which could not be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=ENVIRONMENTS, default=list(ENVIRONMENTS))
    for name in parser.parse_args(arguments).only:
        print(f"{name}: installing", flush=True)
        why = ENVIRONMENTS[name].make()
        print(f"{name}: {f'left out: {why}' if why else 'installed'}", flush=True)


if __name__ == "__main__":
    main()
