"""The result of a run: its summary, its tables and its model, in memory or in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file
from torch import Tensor

from fedsim.ground.units import bits
from fedsim.settings.config import RunConfig

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

    from fedsim.show.results_view import ResultsView


@dataclass(frozen=True, eq=False, repr=False)
class RunResult:
    """A finished run. Files in its folder are read when they are asked for.

    A notebook shows the curve of its metric over the bits that a client has sent, and its row.

    Attributes:
        config: what was run.
        summary: as ``summary.json``: bits are those of a client, summed over the rounds.
        folder: where the run lies; None: in memory.
        frames: the tables by name, of a run in memory.
        weights: the model by name, of a run in memory.

    Example:
        >>> from fedsim import run
        >>> result = run(RunConfig(temporal=5, iterations=20))
        >>> result.summary["rounds"], len(result.rounds), len(result.clients)
        (4, 4, 16)
        >>> sum(x.numel() for x in result.model.values()) == result.summary["parameters"]
        True
    """

    config: RunConfig
    summary: dict[str, Any]
    folder: Path | None = None
    frames: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    weights: Mapping[str, Tensor] = field(default_factory=dict)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row per round: bits are sums over the cohort."""
        return self._table("rounds")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """A row per round and client that was asked."""
        return self._table("clients")

    @cached_property
    def layers(self) -> pd.DataFrame:
        """How many entries of each tensor travelled, in the rounds that were evaluated."""
        return self._table("layers")

    @cached_property
    def model(self) -> dict[str, Tensor]:
        """Every weight and buffer of the final model, by name, on the CPU."""
        if self.folder is None:
            return dict(self.weights)
        return load_file(self.folder / "model.safetensors")

    @cached_property
    def results(self) -> ResultsView:
        """The run as ``fedsim.load`` gives runs: for tables, figures and what is best."""
        from fedsim.results.load import join_runs
        from fedsim.settings.grids import Cell
        from fedsim.show.results_view import load, view_of

        if self.folder is not None:
            return load(self.folder)
        name = Cell.of(self.config).name
        tables = ({name: frame} for frame in (self.rounds, self.layers))
        return view_of(join_runs({name: self.summary}, {name: self.config.flat()}, *tables))

    def __repr__(self) -> str:
        """The result in a line."""
        where = "in memory" if self.folder is None else repr(str(self.folder))
        from fedsim.results.folders import delay_of

        summary = self.summary
        return (
            f"RunResult({summary['task']}, {self.config.method}, {delay_of(summary)}, "
            f"p = {summary['gradient']:g}: {summary['metric_name']} {summary['metric']:.4g}, "
            f"{bits(summary['up_wire_bits'])} up; {where})"
        )

    def _repr_html_(self) -> str:
        return self.results.html()

    def _table(self, name: str) -> pd.DataFrame:
        import pandas as pd

        from fedsim.results.schema import LAYER_COLUMNS

        # That of the layers is left out where no update was used, or no entries travel.
        nothing = pd.DataFrame(columns=[*LAYER_COLUMNS], dtype="float64")
        if self.folder is None:
            return self.frames.get(name, nothing)
        file = self.folder / f"{name}.parquet"
        return pd.read_parquet(file) if file.exists() else nothing
