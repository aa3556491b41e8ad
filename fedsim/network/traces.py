"""Rates over time from a CSV file: one trace for all clients, or one per client."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsim.errors import UsageError, reason
from fedsim.network.rates import Rate

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("seconds", "up", "down")


@dataclass(frozen=True)
class Trace:
    """Pairs of upload and download rates; client i has the pair i modulo their number."""

    pairs: tuple[tuple[Rate, Rate], ...]

    def of(self, clients: int) -> tuple[list[Rate], list[Rate]]:
        """The upload rates and the download rates of so many clients."""
        chosen = [self.pairs[client % len(self.pairs)] for client in range(clients)]
        return [up for up, _ in chosen], [down for _, down in chosen]


def read_trace(file: Path) -> Trace:
    """A trace from a CSV file.

    The columns are `seconds` (from 0, rising), `up` and `down` (bits per second from then on) and,
    where clients differ, `client`. After its last step, which lasts as long as the one before it,
    a trace begins again.

    Raises:
        UsageError: the file cannot be read, or its numbers are not as said.
    """
    told = "seconds, up and down (bits per second)"
    return Trace(tuple(_pair(file, values) for values in read_table(file, _COLUMNS, told)))


def read_table(file: Path, columns: Sequence[str], told: str) -> list[np.ndarray]:
    """The rows of a CSV file of values over time, by `client` where it has that column.

    Args:
        file: the table; its column `seconds` begins at 0 and rises.
        columns: what is read, `seconds` first.
        told: the columns, as a message names them.

    Returns:
        An array of shape (steps, columns) per client.

    Raises:
        UsageError: the file cannot be read, or its numbers are not as said.
    """
    import pandas as pd  # settings are read where it is not installed: a client's machine

    try:
        table = pd.read_csv(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"trace {file} cannot be read: {reason(error)}") from error
    missing = [name for name in columns if name not in table.columns]
    if missing or not len(table):
        raise UsageError(
            f"trace {file} lacks {', '.join(missing) or 'rows'}: its columns are {told}, and "
            "client where clients differ"
        )
    groups = table.groupby("client") if "client" in table.columns else [(0, table)]
    return [_values(file, part[list(columns)]) for _, part in groups]


def _values(file: Path, part: "pd.DataFrame") -> np.ndarray:
    try:
        values = part.to_numpy(dtype=float)
    except (ValueError, TypeError) as error:
        raise UsageError(f"trace {file}: {str(error).splitlines()[0]}") from error
    times = values[:, 0]
    if times[0] != 0 or (np.diff(times) <= 0).any() or not np.isfinite(values).all():
        raise UsageError(f"trace {file}: seconds begin at 0 and rise, and every value is finite")
    return values


def steps(values: np.ndarray, column: int) -> Rate:
    """A column of such a table over time; its last step lasts as long as the one before it."""
    times = values[:, 0]
    period = math.inf if len(times) == 1 else float(2 * times[-1] - times[-2])
    return Rate(tuple(times.tolist()), tuple(values[:, column].tolist()), period)


def _pair(file: Path, values: np.ndarray) -> tuple[Rate, Rate]:
    if (values[:, 1:] < 0).any() or (values[:, 1:].max(axis=0) == 0).any():
        raise UsageError(f"trace {file}: rates are 0 or above, and not all 0")
    return steps(values, 1), steps(values, 2)
