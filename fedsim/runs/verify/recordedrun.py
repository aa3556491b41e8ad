"""The content of a run's folder, read without trusting it."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.federation.ledger import DIGEST_DOWN, DIGEST_MODEL, DIGEST_PAYLOADS, DIGEST_UP
from fedsim.ground.errors import UsageError, reason
from fedsim.ground.strangers import read_file, table_of
from fedsim.results.schema import CLIENT_KEYS, LAYER_COLUMNS, ROUND_COLUMNS, read_summary


@dataclass(frozen=True)
class RecordedRun:
    """The summary and tables of a run that has ended, as they are in its files.

    Raises ``UsageError`` where the summary is missing or damaged.
    """

    folder: Path

    @cached_property
    def summary(self) -> dict[str, Any]:
        """``summary.json``."""
        return read_summary(self.folder)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """``rounds.parquet``; empty where no round was done."""
        digests = DIGEST_PAYLOADS, DIGEST_MODEL
        return self._table("rounds", *ROUND_COLUMNS, "loss", "seconds", *digests)

    @cached_property
    def clients(self) -> pd.DataFrame:
        """``clients.parquet``; empty where no round was done."""
        return self._table("clients", *CLIENT_KEYS, DIGEST_UP, DIGEST_DOWN)

    @cached_property
    def layers(self) -> pd.DataFrame:
        """``layers.parquet``; empty where the run has none."""
        exists = os.path.lexists(self.folder / "layers.parquet")
        return self._table("layers", *LAYER_COLUMNS) if exists else pd.DataFrame()

    def table(self, name: str) -> pd.DataFrame:
        """``rounds``, ``clients`` or ``layers``."""
        return {"rounds": self.rounds, "clients": self.clients, "layers": self.layers}[name]

    def _table(self, name: str, *columns: str) -> pd.DataFrame:
        file = self.folder / f"{name}.parquet"
        if not os.path.lexists(file):
            if self.done:
                raise UsageError(f"{file.name} is missing")
            return pd.DataFrame(columns=[*columns])
        try:
            table = table_of(self.read(file.name))
        except ValueError as error:  # so are pyarrow's
            raise UsageError(f"{file.name}: {error}") from error
        if lacks := [column for column in columns if column not in table]:
            raise UsageError(f"{file.name} lacks the columns {', '.join(lacks)}")
        return table

    def read(self, name: str) -> bytes:
        """The content of an ordinary file of the folder; ``UsageError`` names another one."""
        try:
            return read_file(self.folder / name)
        except (OSError, ValueError) as error:
            raise UsageError(f"{name}: {reason(error)}") from error

    def clients_in(self, number: int) -> list[dict[str, Any]]:
        """The rows of clients of a round, in their order; none where nobody was asked."""
        return self._of_rounds.get(number, [])

    @cached_property  # not a look at the whole table for each round
    def _of_rounds(self) -> dict[int, list[dict[str, Any]]]:
        return rows_by_round(self.clients)

    @property
    def done(self) -> bool:
        """Whether the run came to its end."""
        return bool(self.summary["status"] == "done")

    @property
    def has_payloads(self) -> bool:
        """Whether messages were kept."""
        return (self.folder / "payloads").is_dir()

    @property
    def digests(self) -> dict[int, str]:
        """By round, the model's."""
        return dict(zip(self.rounds["round"], self.rounds[DIGEST_MODEL], strict=True))


def rows_by_round(table: pd.DataFrame) -> dict[int, list[dict[str, Any]]]:
    """The rows of each round in a table, in their order."""
    frames = table.groupby("round", sort=False)
    return {int(str(number)): rows.to_dict("records") for number, rows in frames}
