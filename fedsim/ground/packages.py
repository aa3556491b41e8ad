"""Check that ``compressors`` and ``strategies`` are fedsim's: other projects use the names too."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("compressors", "strategies")
"""The packages that the distribution ``fedsim-lab`` installs in addition to ``fedsim``."""

_FOLDER = Path(__file__).parents[2]


@contextmanager
def both_there() -> Iterator[None]:
    """Explains why an import of fedsim's own packages fails inside.

    Raises ``ImportError`` naming the folder of the package that is in the way, or missing.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise  # something else is missing, such as numpy
        raise ImportError(f"{error}; {_reason()}", name=error.name, path=error.path) from error


def _reason() -> str:
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is None:
            return f"fedsim's own package {name!r} is not in {_FOLDER}: {_CURE}"
        places = [Path(place).resolve() for place in spec.submodule_search_locations or ()]
        if (_FOLDER / name).resolve() not in places:
            elsewhere = ", ".join(map(str, places)) or spec.origin
            return f"{name!r} is another project's, in {elsewhere}: {_CURE}"
    return f"another project's files are in {_FOLDER}, where fedsim's own were: {_CURE}"


_CURE = "install fedsim-lab again, in an environment of its own"
