"""Results that answer and show themselves: the plane of a sweep, the curve of a run."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import pandas as pd

from fedsim.ground.errors import UsageError, unknown
from fedsim.results import load as files
from fedsim.results.compare import compare_frames
from fedsim.results.labels import in_order
from fedsim.results.load import Results
from fedsim.results.ranks import Comparison, Test
from fedsim.show import answer, markup
from fedsim.show.blocks import blocks_of, compared_blocks
from fedsim.show.export import table
from fedsim.show.planes import method_text, one_celled

_SHOWN = ("label", "temporal", "gradient", "metric", "up_wire_bits", "ratio_wire", "ratio_both")


class ResultsView(Results):
    """Results as ``load`` gives them, which say what is best and which method is better.

    A notebook shows the plane of a sweep, or learning curves where there is no plane, and a table.
    """

    def best(self, up_bits: float | str, budget_of: str = "up") -> pd.DataFrame:
        """The best cell of every method where a client may spend so many bits.

        Args:
            up_bits: as for `fedsim.best`.
            budget_of: as for `fedsim.best`.

        Raises:
            UsageError: as `fedsim.best`.

        Example:
            fedsim.load("results/sbc", "results/dropping").best("2Mbit")
        """
        return answer.best(self, up_bits, budget_of)

    def compare(self, first: str, other: str) -> pd.DataFrame:
        """Compares two methods cell by cell, by a paired test over the seeds that both have.

        Args:
            first: the label of a method, as the column `label` of `runs` has it.
            other: what it is compared with.

        Returns:
            The frame of `fedsim.compare`, which compares folders.

        Raises:
            UsageError: a label that no run has; else as `fedsim.compare`.

        Example:
            fedsim.load("results/sbc", "results/dropping").compare("sbc", "gradient_dropping")
        """
        return compare_frames(*((self._of(label), label) for label in (first, other)))

    def compare_methods(
        self,
        *labels: str,
        reference: str | None = None,
        margin: float | None = None,
        test: Test = "t",
        budgets: Sequence[float | str] = (),
        budget_of: str = "up",
    ) -> Comparison:
        """Compares many methods over the tasks and seeds that all have.

        Args:
            labels: of methods, as the column `label` of `runs` has them; none: all of them.
            reference: as for `fedsim.compare_methods`.
            margin: as for `fedsim.compare_methods`.
            test: as for `fedsim.compare_methods`.
            budgets: as for `fedsim.compare_methods`.
            budget_of: as for `fedsim.compare_methods`.

        Returns:
            What `fedsim.compare_methods` returns, which compares folders.

        Raises:
            UsageError: a label that no run has; else as `fedsim.compare_methods`.

        Example:
            fedsim.load("results/sbc", "results/dropping").compare_methods().answer
        """
        groups = [replace(self, runs=self._of(label)) for label in in_order(labels)] or [self]
        return compared_blocks(blocks_of(groups, budgets, budget_of), reference, margin, test)

    def _of(self, label: str) -> pd.DataFrame:
        """The runs of a method; ``UsageError`` where there is none of that label."""
        runs = self.runs[self.runs["label"] == label]
        if runs.empty:
            raise UsageError(unknown("method", label, in_order(self.runs["label"])))
        return runs

    def html(self) -> str:
        """What a notebook shows: the plane, or curves where there is none, and a table.

        There is no picture of several tasks, nor where a cell and seed has two runs.
        """
        from fedsim.show import plot
        from fedsim.show.plot.paper import png

        several, picture = self.runs["task"].nunique() > 1, ""
        with suppress(UsageError):
            if len(self.done) and not several:
                if one_celled(self.runs):
                    axes, what = plot.curves(self.rounds, "up_bits"), "learning curves"
                else:
                    axes, what = plot.matrix(self.runs), "the plane of n and p"
                picture = markup.picture(png(axes), f"{what}: {method_text(self.runs)}")
        columns = [*(["task"] if several else []), *_SHOWN]
        if len(self.done) < len(self.runs):
            columns.append("status")
        return picture + table(self.runs, "html", columns)

    _repr_html_ = html


def load(*paths: Path | str) -> ResultsView:
    """The results in a sweep's folder (`cells/*/`), in that of a single run, or in several of them.

    A failed run is in `.runs`, and in `.rounds` with the rounds that it did. Of several folders,
    runs are called `folder/run`; a run that several hold with the same settings (the dense
    reference of each) counts once. Settings in which the runs of a task differ (learning rate,
    strategy, clients) are part of their labels, where they are not at their defaults.

    Args:
        paths: folders that `fedsim run` or `fedsim sweep` wrote, finished or still growing.

    Raises:
        UsageError: there is no such folder or no finished run in it; a `summary.json` or
            `rounds.parquet` is missing or damaged (the message names the file); or folders have
            one task with other metrics, models, data or test samples.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        results.best("2Mbit")
    """
    return view_of(files.load_results(*paths))


def view_of(results: Results) -> ResultsView:
    """The same results, which show themselves."""
    return ResultsView(**{field.name: getattr(results, field.name) for field in fields(Results)})
