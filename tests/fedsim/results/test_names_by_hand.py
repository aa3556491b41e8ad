"""What runs of one folder or of several are called, which are the same, and which cannot be set
side by side: by cells of a few keys."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import UsageError
from fedsim.results.labels import (
    MethodText,
    ends_dense,
    methods_of,
    of_method,
    reference,
    with_labels,
)
from fedsim.results.merge import (
    check_comparable,
    differing_keys,
    repeats,
    settings_of,
    unique_names,
    variants,
    with_typed_masking,
    without_repeated,
)
from fedsim.results.schema import METHOD_FACTS
from fedsim.settings.cellfile import labelled
from fedsim.settings.config import RunConfig
from fedsim.settings.grids import Cell

SBC, RAW = "ef(per_tensor(one_sided(0.1) | mean | golomb))", "raw"


def labels(*rows: tuple[str, int, float, MethodText], **columns: Any) -> list[str]:
    """The labels of runs: method, n, p, and what they were told."""
    runs = pd.DataFrame([row[:3] for row in rows], columns=["method", "temporal", "gradient"])
    return with_labels(runs.assign(**columns), [row[3] for row in rows])["label"].tolist()


# --- labels -------------------------------------------------------------------------------------


def test_a_method_is_called_as_it_was_typed_or_as_its_run() -> None:
    told = MethodText("sbc", RAW)
    assert labels((SBC, 10, 0.1, told)) == ["sbc"]
    assert labels((SBC, 10, 0.1, told._replace(name="mine"))) == ["mine"]


def test_raw_is_dense_at_n_1_and_raw_beyond() -> None:
    """The dense cells of a named sweep are the reference; a run of raw with a name has it."""
    told, named = MethodText("sbc", RAW), MethodText("sbc", RAW, name="mine")
    assert labels((RAW, 1, 1.0, told), (RAW, 10, 1.0, told)) == ["dense", "raw"]
    assert labels((RAW, 1, 1.0, named), (SBC, 10, 0.1, named)) == ["dense", "mine"]
    assert labels((RAW, 10, 1.0, MethodText(RAW, name="fedavg"))) == ["fedavg"]
    assert labels((RAW, 1, 1.0, told), downlink=["per_tensor(cnat)"]) == ["raw"]
    assert labels((RAW, 1, 1.0, told), downlink=["raw"]) == ["dense"]


def test_settings_and_methods_that_differ_stand_behind_a_name() -> None:
    a, b = MethodText("a", name="mine"), MethodText("b", name="mine")
    assert labels(("a", 1, 0.1, a), ("b", 1, 0.1, b)) == ["mine (a)", "mine (b)"]
    same = labels(("a", 1, 0.1, a), ("a", 1, 0.1, a), variant=["", "lr = 1"])
    assert same == ["mine", "mine (lr = 1)"]
    alike = labels(("a", 1, 0.1, a), ("a", 1, 0.1, a), variant=["lr = 1", "lr = 1"])
    assert alike == ["mine", "mine"]
    plain = MethodText("a")
    assert labels(("a", 1, 0.1, plain), variant=["lr = 1"]) == ["a (lr = 1)"]


def test_a_name_that_is_another_method_s_text_is_told_from_it() -> None:
    named, plain = MethodText("a", name="sbc"), MethodText("sbc")
    assert labels(("a", 1, 0.1, named), (SBC, 1, 0.1, plain)) == ["sbc (a)", "sbc"]
    dense = labels(("a", 1, 0.1, named._replace(name="dense")), (RAW, 1, 1.0, MethodText(RAW)))
    assert dense == ["dense (a)", "dense"]
    own = labels((SBC, 1, 0.1, plain._replace(name="sbc")), (SBC, 1, 0.1, plain), variant="")
    assert own == ["sbc", "sbc"]


def test_names_of_a_cell_s_seeds_are_not_the_method_s() -> None:
    """Two seeds of one cell that have names of their own go by their method; one name stays."""
    rows = [("a", 1, 0.1, MethodText("a", name=name)) for name in ("first", "second")]
    same = [("a", 1, 0.1, MethodText("a", name="mine"))] * 2
    columns: dict[str, Any] = {"task": "t", "seed": [0, 1]}
    assert labels(*rows, **columns) == ["a", "a"] and labels(*same, **columns) == ["mine"] * 2
    assert labels(*rows, task="t", seed=[0, 0]) == ["first", "second"]


def test_facts_of_rows() -> None:
    rows = [
        (RAW, 1, 1.0, MethodText("sbc", RAW)),
        (SBC, 10, 0.1, MethodText("sbc", RAW)),
        ("per_tensor(cnat)", 10, 1.0, MethodText("cnat")),
    ]
    runs = pd.DataFrame([row[:3] for row in rows], columns=["method", "temporal", "gradient"])
    runs = with_labels(runs, [row[3] for row in rows])
    assert runs["dense"].tolist() == [True, False, False]
    assert runs["ends_dense"].tolist() == [True, True, False]
    assert reference(runs).tolist() == [True, False, False]
    assert ends_dense(runs[1:2]) and not ends_dense(runs[2:])
    assert methods_of(runs) == ["cnat", "sbc"] and methods_of(runs[:2]) == ["sbc"]
    assert of_method(runs, "sbc")["label"].tolist() == ["dense", "sbc"]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("sbc-n9-p0.111-s0", "sbc"),
        ("n9_sbc_seed0", "sbc"),
        ("sbc-n8-s0", "sbc-n8"),
        ("sbc-p0.1125", "sbc-p0.1125"),
        ("sbc-p0.112", "sbc"),  # within a hundredth of 1 / 9
        ("top9-p1e-5", "top9-p1e-5"),
        ("s0", ""),
        ("sbc-n9b", "sbc-n9b"),
    ],
)
def test_a_name_less_its_place(name: str, left: str) -> None:
    run = RunConfig(method="sbc", temporal=9, gradient=1 / 9, seed=0)
    assert labelled(Cell(name, run)).config.label == (left or None)
    named = Cell(name, replace(run, label="given"))
    assert labelled(named) == named


# --- folders side by side -----------------------------------------------------------------------


def test_folders_go_by_their_names_or_by_their_paths(tmp_path: Path) -> None:
    paths = [tmp_path / "x" / "a", tmp_path / "y" / "b", tmp_path / "y" / "a"]
    assert [*unique_names(paths[:2])] == ["a", "b"]
    assert [*unique_names(paths)] == [str(path) for path in paths]
    with pytest.raises(UsageError, match="is given twice"):
        unique_names([paths[0], tmp_path / "x" / "." / "a"])


def cell(**changes: Any) -> dict[str, Any]:
    return {
        "task": "t",
        "method": SBC,
        "temporal": 10,
        "gradient": 0.1,
        "seed": 0,
        "status": "done",
        "metric_name": "accuracy",
        "parameters": 9,
        "data_source": "made up",
        "clients": 4,
        "iterations": 100,
        "metric": 0.5,
        "up_wire_bits": 80,
    } | changes


def varied(
    first: dict[str, Any], second: dict[str, Any], cells: Any = None, **same: Any
) -> list[str]:
    """In what two runs differ that were given these settings."""
    given = {"a": {"task": "t"} | same | first, "b": {"task": "t"} | same | second}
    cells = cells or {"a": cell(), "b": cell()}
    return [*variants(cells, settings_of(given)).values()]


def test_a_setting_that_differs_is_told_where_it_is_not_the_default() -> None:
    assert varied({"lr": 0.1}, {}) == ["lr = 0.1", ""]
    assert varied({"lr": 0.1}, {"lr": 0.2}) == ["lr = 0.1", "lr = 0.2"]
    assert varied({"lr": 0.1}, {"lr": 0.1}) == ["", ""]
    assert varied({"lr": 0.1, "strategy": "fedadam"}, {}) == ["strategy = fedadam, lr = 0.1", ""]


def test_what_changes_no_number_is_no_variant() -> None:
    assert varied({"label": "mine", "workers": 3, "evaluate_every": 2}, {}) == ["", ""]
    assert varied({"downlink": "raw", "jobs_of_a_later_version": 3}, {}) == ["", ""]  # which it is
    assert varied({"strategy": "dsgd", "late": "hold"}, {}) == ["", ""]
    assert varied({"downlink": "raw", "strategy": "majority"}, {"strategy": "majority"}) == [
        "downlink = raw",
        "",
    ]


def test_a_setting_that_names_what_is_the_task_s_is_no_variant() -> None:
    """The task's rate is 0.1: naming it is the same as leaving it out; 0.2 is not."""
    cells = {name: cell(settings={"lr": 0.1, "clients": 4}) for name in "ab"}
    assert varied({"lr": 0.1}, {}, cells) == ["", ""]
    other = cells | {"a": cell(settings={"lr": 0.2})}
    assert varied({"lr": 0.2}, {}, other) == ["lr = 0.2", ""]


def test_runs_of_other_tasks_are_not_compared() -> None:
    cells = {"a": cell(), "b": cell(task="u")}
    assert varied({"lr": 0.1}, {}, cells) == ["", ""]


def test_a_reference_has_the_strategy_and_the_downlink_of_its_methods() -> None:
    """raw is no code and has no residuals, and its downlink is raw whatever theirs is."""
    cells = {"a": cell(method=RAW, temporal=1, gradient=1.0), "b": cell()}
    assert varied({}, {"strategy": "majority"}, cells) == ["", ""]
    assert varied({"lr": 0.1}, {"strategy": "innetwork"}, cells) == ["lr = 0.1", ""]
    assert varied({}, {"downlink": "per_tensor(cnat)"}, cells) == ["", ""]
    assert varied({}, {"momentum_masking": "off"}, cells) == ["", ""]
    assert varied({}, {"strategy": "fedadam"}, cells) == ["", "strategy = fedadam"]
    assert varied({}, {"strategy": "majority"}) == ["", "strategy = majority"]


def test_settings_that_differ_are_named_once() -> None:
    assert differing_keys({"a": {"lr": 1, "x": 2}, "b": {"lr": 2, "x": 2}}) == ["lr"]
    assert differing_keys({}) == [] and settings_of({"a": {}}) == {}


def test_two_runs_of_one_place_repeat() -> None:
    assert repeats({"a": cell(), "b": cell()}) and not repeats({"a": cell(), "b": cell(seed=1)})


def folders(cells: Any) -> dict[str, Path]:
    return {name: Path(name) for name in cells}


def compared(cells: Any, settings: Any, scored: bool = True) -> None:
    check_comparable(cells, settings, folders(cells), dict.fromkeys(cells, {}), scored)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"metric_name": "top1"}, "metric_name is 'accuracy' in the one and 'top1' in the other"),
        ({"parameters": 8}, "parameters is 9"),
        ({"data_source": "other"}, "data_source"),
        ({"metric_name": None}, ""),
        ({"task": "u", "parameters": 8}, ""),
        ({"metric": 0.1}, ""),
    ],
)
def test_what_cannot_stand_in_one_table(change: dict[str, Any], refused: str) -> None:
    cells = {"a": cell(), "b": cell(**change)}
    if not refused:
        compared(cells, {})
        return
    with pytest.raises(UsageError, match=f"a and b cannot stand in one table: {refused}"):
        compared(cells, {})


def test_data_is_the_same_by_its_digest_or_less_its_versions() -> None:
    cells = {
        "a": cell(data_source="scikit-learn 1.5.1, embedded"),
        "b": cell(data_source="scikit-learn 1.6, embedded"),
    }
    compared(cells, {})
    cells = {"a": cell(data_source="a zip, sha256 0a1b"), "b": cell(data_source="sha256 0a1b, png")}
    compared(cells, {})
    cells["b"] = cell(data_source="a zip, sha256 0a1c")
    with pytest.raises(UsageError, match="data_source"):
        compared(cells, {})


def test_scores_of_other_samples_cannot_stand_in_one_table() -> None:
    cells = {"a": cell(), "b": cell()}
    given = settings_of({"a": {"task": "t"}, "b": {"task": "t", "validation": 0.2}})
    with pytest.raises(UsageError, match="validation is None in the one and 0.2 in the other"):
        compared(cells, given)
    compared(cells, given, scored=False)


def kept(*cells: dict[str, Any], told: Any = None, settings: Any = None) -> list[str]:
    named = {f"r{k}": run for k, run in enumerate(cells)}
    settings = {name: {"downlink": None} for name in named} if settings is None else settings
    told = dict.fromkeys(named, "") if told is None else told
    return [*without_repeated(named, folders(named), settings, told)]


def test_of_repeated_runs_the_first_that_is_done_counts() -> None:
    failed = cell(status="failed")
    assert kept(cell(), cell()) == ["r0"] and kept(failed, cell(), cell()) == ["r1"]
    assert kept(failed, failed) == ["r0"] and kept(cell(), cell(seed=1)) == ["r0", "r1"]
    assert kept(cell(), cell(), told={"r0": "", "r1": "lr = 1"}) == ["r0", "r1"]
    lossy = {"r0": {"downlink": None}, "r1": {"downlink": "per_tensor(cnat)"}}
    assert kept(cell(), cell(), settings=lossy) == ["r0", "r1"]


def test_without_settings_equal_numbers_are_the_same_run_and_others_refused() -> None:
    assert kept(cell(), cell(), settings={}) == ["r0"]
    with pytest.raises(UsageError, match=r"with different numbers \(metric 0.5 and 0.6\)"):
        kept(cell(), cell(metric=0.6), settings={})


def test_masking_is_the_methods_unless_it_was_varied() -> None:
    """``config.toml`` has on or off for it, whatever was typed."""
    cells = {
        name: {"method": method, METHOD_FACTS: {"masks": False, "form": "stc(0.1)"}}
        for name, method in (("a", "stc(0.1)"), ("b", "stc(0.1)"), ("c", "cnat"))
    }
    on, off, auto = ({"momentum_masking": value} for value in ("on", "off", "auto"))
    given = {"a": on, "b": off, "c": off}
    assert with_typed_masking(given, cells) == {"a": on, "b": off, "c": auto}
    assert with_typed_masking({**given, "a": off}, cells) == dict.fromkeys("abc", auto)
