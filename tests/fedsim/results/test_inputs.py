"""What figures, tables and runs are given by mistake: told in a line, with what to give."""

import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim import RunConfig, SweepConfig, UsageError, plot
from fedsim.results.load import Results, load_results
from tests.support.sweepmaker import make_sweep


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("inputs")
    make_sweep(folder, (10,), (0.1,))
    return load_results(folder)


RUNS = {"matrix": plot.matrix, "pareto": plot.pareto, "table": fedsim.table}
ROUNDS = {"curves": plot.curves, "budget": plot.budget}


@pytest.mark.parametrize("name", [*RUNS, *ROUNDS])
def test_the_frame_that_is_taken_is_named(name: str, results: Results) -> None:
    kind, other = ("runs", "rounds") if name in RUNS else ("rounds", "runs")
    take: Callable[[Any], object] = (RUNS | ROUNDS)[name]
    mistakes = {
        f"was given results.{other}": getattr(results, other),
        f"give results.{kind}, not the results as a whole": results,
        "was given a str": "results/sbc",
        "was given a PosixPath": results.path,
        "was given one without rows": getattr(results, kind)[:0],
        "was given one without task, method": pd.DataFrame(),
        "was given one without metric": getattr(results, kind).drop(columns="metric"),
    }
    for words, given in mistakes.items():
        with pytest.raises(UsageError) as error:
            take(given)
        said = str(error.value)
        assert said.startswith(f"{name}() takes ") and words in said and f"results.{kind}" in said
        assert "\n" not in said
    take(getattr(results, kind))


def test_a_figure_goes_into_a_folder_that_is_there(results: Results, tmp_path: Path) -> None:
    figure = plot.pareto(results.runs)
    with pytest.raises(UsageError, match=r"there is no folder .*nowhere\.$"):
        plot.save(figure, tmp_path / "nowhere" / "x.png")
    plot.save(figure, tmp_path / "x.png")


def test_what_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^run\(\) takes a RunConfig, and was given 'digits'$"):
        fedsim.run("digits", tmp_path / "out")
    with pytest.raises(UsageError, match=r"^sweep\(\) takes a SweepConfig, and was given Run"):
        fedsim.sweep(RunConfig(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_misspelt_setting_is_told_as_everywhere() -> None:
    with pytest.raises(UsageError, match=r"RunConfig: unknown .*'temporl' .did you mean temporal"):
        RunConfig(temporl=5)
    with pytest.raises(UsageError, match=r"SweepConfig: .*'gradients' .did you mean gradient"):
        SweepConfig(RunConfig(), gradients=(0.1,))
    config = RunConfig("digits", method="raw", temporal=3)
    assert pickle.loads(pickle.dumps(config)) == config
    assert list(inspect.signature(RunConfig).parameters)[:2] == ["task", "method"]


def test_a_grid_has_a_delay() -> None:
    with pytest.raises(UsageError, match=r"SweepConfig.of: temporal is \[\]; it takes one number"):
        SweepConfig.of(temporal=[], gradient=0.1)
