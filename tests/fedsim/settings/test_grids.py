"""Grids: which cells, by which names, in which order, and as TOML."""

from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, SweepConfig, UsageError
from fedsim.settings.grids import flat_grid, sweep_from_flat, sweep_from_toml, sweep_to_toml

SBC = RunConfig(method="sbc", gradient=0.1)


def read(values: dict[str, Any]) -> SweepConfig:
    """As a file is read."""
    return sweep_from_flat(flat_grid(values, "here"), "here")


def names(config: SweepConfig) -> list[str]:
    return [cell.name for cell in config.cells()]


def test_the_dense_reference_comes_first_then_the_grid_in_order() -> None:
    assert names(SweepConfig(SBC, (10, 2), (0.1, 1, 0.01))) == [
        "n1-p1-s0",
        "n10-p0.1-s0",
        "n10-p1-s0",
        "n10-p0.01-s0",
        "n2-p0.1-s0",
        "n2-p1-s0",
        "n2-p0.01-s0",
    ]


def test_each_cell_is_its_place_on_the_plane() -> None:
    base = SBC.but(iterations=60, partition="dirichlet(0.3)")
    for cell in SweepConfig(base, (5, 10), (1, 0.1), seeds=2).cells():
        n, p, seed = (part[1:] for part in cell.name.split("-"))
        config, plan = cell.config, cell.config.plan
        assert (config.temporal, plan.method.gradient, config.seed) == (int(n), float(p), int(seed))
        assert (plan.iterations, config.clients.partition) == (60, "dirichlet(0.3)")
        text = "raw" if p == "1" else "ef(per_tensor(one_sided(0.1) | mean | golomb))"
        assert plan.method.text == text


def test_seeds_have_a_reference_each() -> None:
    assert names(SweepConfig(SBC, (10,), (0.1,), seeds=2)) == [
        "n1-p1-s0",
        "n1-p1-s1",
        "n10-p0.1-s0",
        "n10-p0.1-s1",
    ]


def test_no_reference_where_it_is_not_wanted_or_on_the_grid() -> None:
    assert names(SweepConfig(SBC, (10,), (0.1,), baseline=False)) == ["n10-p0.1-s0"]
    on_grid = SweepConfig(SBC, (10, 1), (0.1, 1))
    assert names(on_grid) == ["n10-p0.1-s0", "n10-p1-s0", "n1-p0.1-s0", "n1-p1-s0"]
    # dense is dense, by whatever method: a folder can grow from the one to the other
    asked = on_grid.cells()[-1].config
    reference = SweepConfig(SBC, (10,), (0.1,)).cells()[0].config
    assert asked.identity() == reference.identity()


def test_cells_of_as_many_rounds_have_a_reference_of_the_most_iterations() -> None:
    cells = SweepConfig.of(rounds=3, temporal=[1, 5, 2], gradient=[0.1]).cells()
    done = {cell.name: cell.config.plan.iterations for cell in cells}
    assert done == {"n1-p1-s0": 15, "n1-p0.1-s0": 3, "n5-p0.1-s0": 15, "n2-p0.1-s0": 6}


def test_cells_of_local_epochs_have_a_reference_of_as_many(tmp_path: Path) -> None:
    config = SweepConfig.of(rounds=3, local_epochs=[1, 5], gradient=[0.1])
    runs = {cell.name: cell.config for cell in config.cells()}
    done = {name: (run.local_epochs, run.rounds) for name, run in runs.items()}
    assert done == {"e1-p1-s0": (1, 15), "e1-p0.1-s0": (1, 3), "e5-p0.1-s0": (5, 3)}
    assert runs["e1-p1-s0"].method == "raw"
    (tmp_path / "sweep.toml").write_text(sweep_to_toml(config))
    assert "temporal" not in sweep_to_toml(config)
    assert sweep_from_toml(tmp_path / "sweep.toml") == config
    base = RunConfig.of(method="sbc", rounds=3, local_epochs=5)
    assert names(SweepConfig(base, gradient=(0.1,)))[-1] == "e5-p0.1-s0"
    for given in ({"temporal": [5]}, {"vary": {"local_epochs": [1, 2]}}):
        with pytest.raises(UsageError, match="local_epochs"):
            SweepConfig.of(rounds=3, local_epochs=[1], **given)


@pytest.mark.parametrize(
    ("more", "cells"),
    [
        ({"local_seconds": "0.5s"}, ["t0.5-p1-s0", "t0.5-p0.1-s0"]),
        (
            {"vary": {"local_seconds": [1, "2s"]}},
            [
                "t1-p1-s0-local_seconds-1",
                "t2-p1-s0-local_seconds-2",
                "t1-p0.1-s0-local_seconds-1",
                "t2-p0.1-s0-local_seconds-2",
            ],
        ),
    ],
)
def test_cells_of_local_seconds_have_a_reference_of_as_many_rounds(
    more: dict[str, Any], cells: list[str], tmp_path: Path
) -> None:
    base = {"rounds": 3, "network": "compute=20ms", "gradient": [0.1]}
    config = SweepConfig.of(**base, **more)
    assert names(config) == cells
    assert all(cell.config.rounds == 3 and cell.config.by_client for cell in config.cells())
    (tmp_path / "sweep.toml").write_text(sweep_to_toml(config))
    assert sweep_from_toml(tmp_path / "sweep.toml") == config
    for other in ({"temporal": [5]}, {"local_epochs": [1]}):
        with pytest.raises(UsageError, match="local_seconds"):
            SweepConfig.of(**base, **more, **other)


def test_a_cell_that_is_asked_for_twice_is_one_cell() -> None:
    assert names(SweepConfig(SBC, (10, 10), (0.1, 0.1))) == ["n1-p1-s0", "n10-p0.1-s0"]


def test_methods_that_carry_their_own_fraction() -> None:
    for method, p in (("topk(0.05) | float32 | golomb", "0.05"), ("sbc(0.2)", "0.2"), ("raw", "1")):
        for gradient in ((), (1,)):
            config = SweepConfig(RunConfig(method=method), (10,), gradient)
            assert names(config) == ["n1-p1-s0", f"n10-p{p}-s0"]
    with pytest.raises(UsageError, match=r"--gradient is 0.1 and method 'raw' has no place"):
        SweepConfig(RunConfig(method="raw"), (10,), (0.1,)).cells()


def test_texts_with_a_place_for_the_fraction() -> None:
    base = RunConfig(method="flat(topk({p}) | float32 | golomb)", gradient=0.1)
    cells = SweepConfig(base, (10,), (0.5, 0.1)).cells()
    assert [c.name for c in cells] == ["n1-p1-s0", "n10-p0.5-s0", "n10-p0.1-s0"]
    assert cells[1].config.plan.method.text == "flat(topk(0.5) | float32 | golomb)"
    assert cells[0].config.plan.method.text == "raw"


CONFIGS = {
    "default grid": SweepConfig(SBC, (10,), (0.1,)),
    "much": SweepConfig(
        SBC.but(clients=7, partition="dirichlet(0.3)", lr=0.5, keep_payloads=True),
        (1, 100),
        (0.1, 1.0, 0.003),
        seeds=3,
        baseline=False,
    ),
    "own fraction": SweepConfig(RunConfig(method="sbc(0.01)", temporal=1), (2,), ()),
    "text": SweepConfig(RunConfig(method="one_sided({p})|mean|golomb", gradient=0.5), (3,), (0.5,)),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_toml_and_back(config: SweepConfig, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(sweep_to_toml(config))
    assert sweep_from_toml(tmp_path / "sweep.toml").cells() == config.cells()
    assert sweep_to_toml(sweep_from_toml(tmp_path / "sweep.toml")) == sweep_to_toml(config)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temporal": [1, 2.5]}, "temporal is .*whole numbers"),
        ({"temporal": "10"}, "temporal is '10'.*number or a list"),
        ({"gradient": [True]}, r"gradient is \[True\]"),
        ({"seeds": "3"}, "seeds is '3'"),
        ({"baseline": 1}, "baseline is 1.*true or false"),
        ({"tusk": "digits"}, r"unknown setting 'tusk' \(did you mean task\?\); known are tempo"),
        ({"gradients": [0.1]}, r"unknown .*'gradients' \(did you mean gradient\?\); .* seeds, "),
        ({"clients": "x"}, "clients is 'x'; it takes int"),
    ],
)
def test_bad_values_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^here: {message}"):
        read({"gradient": [0.1]} | values)


def test_one_number_is_a_list_of_one() -> None:
    config = read({"temporal": 5, "gradient": 0.1, "iterations": 20})
    assert (config.temporal, config.gradient) == ((5,), (0.1,))
    assert names(config) == ["n1-p1-s0", "n5-p0.1-s0"]


def test_a_method_that_sends_every_entry_stands_beside_the_dense_reference() -> None:
    cells = SweepConfig.of(method="float32", temporal=[1, 10], seeds=2).cells()
    texts = {cell.name: cell.config.plan.method.text for cell in cells}
    assert texts == {
        "dense-s0": "raw",
        "dense-s1": "raw",
        "n1-p1-s0": "per_tensor(float32)",
        "n1-p1-s1": "per_tensor(float32)",
        "n10-p1-s0": "per_tensor(float32)",
        "n10-p1-s1": "per_tensor(float32)",
    }


def test_fractions_that_agree_to_six_digits_are_cells_of_their_own(tmp_path: Path) -> None:
    base = SweepConfig(SBC, (10,), (0.1, 0.10000001, 0.1000000000001, 0.01, 0.0031622776601683795))
    assert names(base) == [
        "n1-p1-s0",
        "n10-p0.1-s0",
        "n10-p0.10000001-s0",
        "n10-p0.1000000000001-s0",
        "n10-p0.01-s0",
        "n10-p0.00316228-s0",
    ]
    near_one = SweepConfig(SBC, (10,), (1, 0.99999999), baseline=False)
    assert names(near_one) == ["n10-p1-s0", "n10-p0.99999999-s0"]
    (tmp_path / "sweep.toml").write_text(sweep_to_toml(base))
    assert names(sweep_from_toml(tmp_path / "sweep.toml")) == names(base)


def test_the_dense_reference_is_raw_both_ways() -> None:
    config = SweepConfig.of(
        method="gradient_dropping", temporal=[10], gradient=[0.1], downlink="sbc(0.1)"
    )
    dense, cell = config.cells()
    assert (dense.name, dense.config.downlink, cell.config.downlink) == (
        "n1-p1-s0",
        None,
        "sbc(0.1)",
    )
    caught = SweepConfig.of(method="sbc", temporal=[10], downlink="sbc(0.1)", catch_up=True)
    assert [c.config.clients.catch_up for c in caught.cells()] == [False, True]  # raw has no missed
    own = SweepConfig.of(
        method="gradient_dropping", temporal=[1], gradient=[1], downlink="sbc(0.1)"
    )
    assert names(own) == ["dense-s0", "n1-p1-s0"]  # its cell that sends all is not the reference


def test_with_a_raw_downlink_one_dense_cell_is_enough() -> None:
    for downlink in (None, "raw"):
        config = SweepConfig.of(
            method="gradient_dropping", temporal=[1], gradient=[1], downlink=downlink
        )
        assert names(config) == ["n1-p1-s0"]
