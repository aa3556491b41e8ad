"""The one table of everything that has a name: parts, compressors and published methods.

The contract suite, the catalogue page, the command line and the benchmarks run over
these rows. To add a method: its class, its row in ``compressors/rows``, its golden bytes.
"""

from importlib.util import find_spec

from compressors.rows import (
    coders,
    compressors,
    deepreduce,
    dithering,
    entropy,
    entropy_symbols,
    methods,
    natural,
    quantizers,
    signs,
    sparsifiers,
    whole,
)
from compressors.rows.base import Kind, Row

__all__ = ["CATALOGUE", "Kind", "ROWS", "Row", "own_rows"]

_EVERY: tuple[Row, ...] = (
    methods.ROWS + whole.ROWS + compressors.ROWS + sparsifiers.ROWS + quantizers.ROWS
    + natural.ROWS + dithering.ROWS + signs.ROWS + coders.ROWS + entropy.ROWS
    + entropy_symbols.ROWS + deepreduce.ROWS
)

CATALOGUE: dict[str, Row] = {row.name: row for row in _EVERY}
_OURS = dict(CATALOGUE)


def own_rows() -> dict[str, Row]:
    """The rows that a user added, or put in the place of one of this package's.

    Example:
        >>> own_rows()
        {}
    """
    return {name: row for name, row in CATALOGUE.items() if _OURS.get(name) is not row}


def _usable(row: Row) -> bool:
    """Whether the package that a row needs, if any, is on this machine."""
    try:
        return not row.needs or find_spec(row.needs) is not None
    except ImportError:
        return False


ROWS: tuple[Row, ...] = tuple(row for row in _EVERY if _usable(row))
"""The rows of what can be made on this machine."""
