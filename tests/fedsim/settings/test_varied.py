"""Sweeps over any setting: how values are read, which cells there are, and their references."""

from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, SweepConfig, UsageError
from fedsim.commands import cli, sweep
from fedsim.runs.sweep import claim, shared_digest
from fedsim.settings import variations
from fedsim.settings.grids import sweep_from_toml, sweep_to_toml
from tests.support.commands import Typed

SBC = RunConfig(method="sbc", gradient=0.1)


def names(**given: Any) -> list[str]:
    """The cells of sbc at n = 10 and p = 0.1, of these grids and settings."""
    grid = {"method": "sbc", "temporal": [10], "gradient": [0.1]} | given
    if "method" in given.get("vary", {}):
        del grid["method"]
    return [cell.name for cell in SweepConfig.of(**grid).cells()]


def test_values_are_split_outside_of_parentheses_and_quotes() -> None:
    given = ["partition='dirichlet(0.1)',iid", "--batch-size=8,16", 'network="up=5Mbit, x",4g']
    assert variations.parse_vary(given) == {
        "partition": ["dirichlet(0.1)", "iid"],
        "batch_size": ["8", "16"],
        "network": ["up=5Mbit, x", "4g"],
    }


def test_every_combination_is_a_cell_with_a_reference_of_its_own() -> None:
    vary = {"lr": [0.01, 0.1], "partition": ["dirichlet(0.1)", "iid"]}
    splits = ("dirichlet-0.1", "iid")
    settings = [f"lr-{lr}-partition-{split}" for lr in (0.01, 0.1) for split in splits]
    places = ("n1-p1-s0", "n10-p0.1-s0")
    assert names(vary=vary) == [f"{at}-{own}" for at in places for own in settings]
    cells = SweepConfig(SBC, (10,), (0.1,), vary=vary).cells()
    given = [(c.config.training.lr, c.config.clients.partition) for c in cells[:4]]
    assert given == [(0.01, "dirichlet(0.1)"), (0.01, "iid"), (0.1, "dirichlet(0.1)"), (0.1, "iid")]
    assert len({cell.config.digest for cell in cells}) == 8


def test_equal_values_are_one() -> None:
    assert names(vary={"lr": [0.1, "0.10", 0.1]}, baseline=False) == ["n10-p0.1-s0-lr-0.1"]
    methods = ["sbc", "sbc({p})"]  # spelled otherwise, and the same
    assert len(names(vary={"method": methods}, baseline=False)) == 1


@pytest.mark.parametrize(
    ("vary", "references"),
    [
        ({"downlink": ["raw", "sbc(0.05)"]}, 1),
        ({"strategy": ["dsgd", "majority"]}, 1),
        ({"strategy": ["dsgd", "fedadam"]}, 2),
        ({"server_lr": [0.1, 1]}, 2),
        ({"controller": ["none", "pace(2)"]}, 1),
        ({"downlink": ["raw", "sbc(0.05)"], "lr": [0.1, 0.2]}, 2),
        ({"lr": [0.1, 0.2], "batch_size": [8, 16, 32]}, 6),
    ],
)
def test_what_changes_no_dense_run_makes_no_other_reference(
    vary: dict[str, Any], references: int
) -> None:
    own: dict[str, Any] = {"network": "4g, compute=20ms"}
    if "server_lr" in vary:
        own["strategy"] = "fedadam"
    if "majority" in vary.get("strategy", ()):
        own |= {"method": "sign(0.003)", "gradient": []}
    whole, alone = names(vary=vary, **own), names(vary=vary, baseline=False, **own)
    assert len(whole) - len(alone) == references and {*alone} < {*whole}


def test_a_cell_that_is_the_reference_is_not_run_twice() -> None:
    both = {"method": ["raw", "sbc"]}
    assert names(temporal=[1], vary=both) == ["n1-p1-s0", "n1-p0.1-s0-method-sbc"]
    assert names(temporal=[1], vary=both, baseline=False) == names(temporal=[1], vary=both)
    assert names(temporal=[1], vary={"method": ["sbc"]}) == names(temporal=[1], vary=both)


def test_methods_without_a_fraction_run_at_their_own() -> None:
    found = names(gradient=[0.1, 0.01], vary={"method": ["sbc", "sign(0.003)"]}, baseline=False)
    assert found == [
        "n10-p0.1-s0-method-sbc",
        "n10-p0.01-s0-method-sbc",
        "n10-p1-s0-method-sign-0.003",
    ]
    with pytest.raises(UsageError, match="--gradient is 0.1 and method .* has no place"):
        names(vary={"method": ["cnat", "sign(0.003)"]})


def test_other_values_have_other_names() -> None:
    values = ["topk(0.1) | float32", "topk(0.1) | cnat", "topk(0.1)|float32|golomb"]
    assert len({variations.folder_suffix({"method": value}) for value in values}) == 3
    rates = [0.1, 0.10000001]
    assert [variations.folder_suffix({"lr": lr}) for lr in rates] == ["-lr-0.1", "-lr-0.10000001"]


ERRORS = {
    "lrr=1": r"unknown setting 'lrr' \(did you mean lr\?\)",
    "temporal=1,10": "temporal cannot be varied: n has an option of its own: --temporal",
    "p=0.1": "p cannot be varied: p has an option of its own: --gradient",
    "seed=1,2": "seed cannot be varied: seeds have an option of their own: --seeds",
    "workers=1,2": "workers cannot be varied: no number of a run depends on it",
    "task=digits": "task cannot be varied: .*run a sweep for each",
    "evaluate-every=5,10": "evaluate_every cannot be varied: .* give one value, the smallest",
    "lr=high": "lr is 'high'; it takes float",
    "lr=0.1,-1": r"--lr is -1.0: give a number above 0",
    "catch_up=maybe": "catch_up is 'maybe'; it takes bool",
    "late=hold,never": "--late is 'never': give one of hold, drop, count",
    "partition=iid,sorted(3)": "partition",
    "cohort=2,9": "--cohort is 9: there are 4 clients",
    "lr": "--vary is 'lr': give a setting and its values",
    "lr=0.1,": "--vary is 'lr=0.1,': give a setting and its values",
}


@pytest.mark.parametrize("text", ERRORS)
def test_values_are_checked_before_any_work(text: str, typed: Typed, tmp_path: Path) -> None:
    out = tmp_path / "out"
    refused = typed("sweep", "--vary", text, "--out", str(out))
    assert refused.code == 2 and not out.exists()
    with pytest.raises(UsageError, match=ERRORS[text]):
        raise UsageError(refused.err)


def test_a_setting_is_given_once(typed: Typed, tmp_path: Path) -> None:
    twice = typed("sweep", "--vary", "lr=0.1", "--vary", "lr=0.2")
    assert "--vary has lr twice" in twice.err
    fixed = typed("sweep", "--vary", "lr=0.1", "--lr", "0.2")
    assert "lr is 0.2 and is varied too: give one" in fixed.err
    rates = ("--vary", "strategy=nesterov,fedadam", "--vary", "server_lr=0.1,0.5")
    fixed = typed("sweep", *rates, "--server-lr", "0.3")
    assert "server_lr is 0.3 and is varied too: give one" in fixed.err
    listed = tmp_path / "list.toml"
    listed.write_text("[cells.a]\nmethod = 'raw'\n")
    refused = typed("sweep", "--config", str(listed), "--vary", "lr=0.1,0.2")
    assert "lists cells, it is not a grid" in refused.err
    listed.write_text("[vary]\nlr = [0.1]\n[cells.a]\nmethod = 'raw'\n")
    assert "vary is" in typed("sweep", "--config", str(listed)).err


@pytest.mark.parametrize("how", ["python", "flags"])
def test_a_setting_of_strategies_is_that_of_each_which_is_varied(how: str, typed: Typed) -> None:
    if how == "python":
        vary = {"strategy": ["fedadam", "fedavgm"]}
        grid = SweepConfig.of(method="raw", server_lr=0.5, vary=vary)
    else:
        line = ("sweep", "--vary", "strategy=fedadam,fedavgm", "--server-lr", "0.5")
        made = sweep.grid_from_flags(cli.parser().parse_args([*line, "--method", "raw"]))
        assert isinstance(made, SweepConfig)
        grid = made
    assert {cell.config.strategy for cell in grid.cells()} == {
        "fedadam(server_lr=0.5)",
        "fedavgm(server_lr=0.5)",
    }
    refused = typed("sweep", "--vary", "strategy=dsgd,fedadam", "--server-lr", "0.5")
    assert "--server-lr is 0.5: it belongs to" in refused.err
    assert "--strategy is 'dsgd'" in refused.err


CONFIGS = {
    "numbers": SweepConfig(SBC, (10,), (0.1,), vary={"lr": [0.1, 0.2], "clients": [2, 3]}),
    "none": SweepConfig(SBC, (10,), (0.1,), vary={"cohort": [None, 2], "network": ["4g"]}),
    "strategy": SweepConfig(
        SBC.but(strategy="fedadam"), (10,), (0.1,), vary={"server_lr": [0.1, 0.5]}
    ),
    "methods": SweepConfig(SBC, (10,), (0.1,), vary={"method": ["raw", "sbc"]}),
    "differences": SweepConfig(
        RunConfig(method="ef21(topk(0.01) | float32)", strategy="ef21"),
        (10,),
        (),
        vary={"method": ["ef21(topk(0.01) | float32)", "ef21(topk(0.1) | float32)"]},
    ),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_toml_and_back(config: SweepConfig, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(sweep_to_toml(config))
    assert sweep_from_toml(tmp_path / "sweep.toml").cells() == config.cells()
    assert sweep_to_toml(sweep_from_toml(tmp_path / "sweep.toml")) == sweep_to_toml(config)


def test_a_folder_takes_more_values_and_no_other_settings(tmp_path: Path) -> None:
    def sweep(lr: list[float], **more: Any) -> SweepConfig:
        vary = {"lr": lr} | more.pop("vary", {})
        return SweepConfig.of(method="sbc", gradient=[0.1], vary=vary, **more)

    claim(tmp_path, sweep([0.1, 0.2]))
    claim(tmp_path, sweep([0.4]))
    assert shared_digest(sweep([0.1, 0.2])) == shared_digest(sweep([0.4]))
    with pytest.raises(UsageError, match="varies lr, and this one varies nothing"):
        claim(tmp_path, SweepConfig(SBC, (10,), (0.1,)))
    with pytest.raises(UsageError, match="varies lr, and this one varies lr, clients"):
        claim(tmp_path, sweep([0.1], vary={"clients": [2]}))
    for other in ({"clients": 5}, {"iterations": 7}):
        with pytest.raises(UsageError, match="results of other settings"):
            claim(tmp_path, sweep([0.1], **other))
        assert shared_digest(sweep([0.1], **other)) != shared_digest(sweep([0.1]))


@pytest.mark.parametrize("controller", ["plateau(3)", "warmup(3)", "delay_first(0.5)", "pace(2)"])
def test_a_sweep_with_a_controller_has_a_folder_that_it_goes_on_in(
    controller: str, tmp_path: Path
) -> None:
    """Raw sending, for which other sweeps' methods stand aside, has no p to be moved."""
    own: dict[str, Any] = {"method": "sbc", "network": "4g, compute=20ms"}
    first = SweepConfig.of(controller=controller, gradient=[1, 0.1], **own)
    claim(tmp_path, first)
    claim(tmp_path, SweepConfig.of(controller=controller, gradient=[0.01], **own))
    for other in (None, "plateau(4)"):
        changed = SweepConfig.of(controller=other, gradient=[1, 0.1], **own)
        assert shared_digest(changed) != shared_digest(first)
        with pytest.raises(UsageError, match="results of other settings"):
            claim(tmp_path, changed)


def test_sweeps_of_unlike_numbers_of_rounds_have_folders_of_their_own() -> None:
    grids = [
        SweepConfig.of(method="sbc", temporal=[2], gradient=[0.1], vary={"lr": [0.1, 0.2]}, **more)
        for more in ({}, {"rounds": 5}, {"rounds": 6}, {"iterations": 10})
    ]
    assert len({shared_digest(grid) for grid in grids}) == len(grids)
