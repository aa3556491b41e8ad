"""Settings: their text forms, their names, and what is refused."""

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compressors import Float32, Pipeline, TopK, parse, sbc, text
from fedsim import (
    Clients,
    Evaluation,
    Machine,
    Network,
    RunConfig,
    SweepConfig,
    Training,
    UsageError,
)
from fedsim.settings.config import flat_settings, from_toml, over, run_from_flat
from fedsim.settings.foreign import check_tasks

FULL = RunConfig.of(
    method="sbc", gradient=0.02, temporal=4, clients=3, cohort=2, iterations=10, batch_size=8,
    lr=0.5, momentum=0.8, seed=7, partition="dirichlet(0.3)", strategy="fedadam", server_lr=0.1,
    downlink="sbc(0.1)", momentum_masking="off", evaluate_every=2, min_replies=1, workers=2,
    timeout=3.0, data="somewhere", keep_payloads=True, checkpoint_every=5,
)  # fmt: skip


def read(values: dict[str, Any]) -> RunConfig:
    """As Flower's run keys are read: by the names of flags."""
    return run_from_flat(flat_settings(values, "here", flags=True))


def test_toml_and_back(tmp_path: Path) -> None:
    for config in (FULL, RunConfig()):
        (tmp_path / "config.toml").write_text(config.to_toml(), encoding="utf-8")
        assert from_toml(tmp_path / "config.toml") == config


def test_whole_numbers_do_for_fractions() -> None:
    config = read({"method": "sbc", "gradient": 1, "timeout": 5})
    assert isinstance(config.gradient, float) and isinstance(config.machine.timeout, float)


def test_a_config_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        FULL.seed = 3


def test_the_plan_fills_in_the_tasks_defaults() -> None:
    plan = RunConfig().plan
    assert (plan.clients, plan.cohort, plan.min_replies) == (4, 4, 1)
    assert plan.iterations == plan.task.iterations and plan.batch_size == plan.task.batch_size
    assert plan.method.compressor == sbc(0.01)
    plan = FULL.plan
    assert (plan.clients, plan.cohort, plan.min_replies, plan.evaluate_every) == (3, 2, 1, 2)
    assert plan.downlink == parse("sbc(0.1)")


def test_the_last_round_may_be_shorter() -> None:
    plan = FULL.plan  # 10 iterations, 4 a round
    assert plan.rounds == 3
    assert [plan.local_iterations(r) for r in (1, 2, 3)] == [4, 4, 2]
    assert [plan.iterations_after(r) for r in (1, 2, 3)] == [4, 8, 10]
    assert RunConfig(temporal=5, iterations=20).plan.rounds == 4


@pytest.mark.parametrize(
    ("method", "masking", "masks"),
    [
        ("sbc(0.1)", "auto", True),
        ("raw", "auto", False),
        ("sbc(1)", "auto", False),
        ("topk(0.1) | float32 | golomb", "auto", False),
        ("sbc(0.1)", "off", False),
        ("raw", "on", True),
        ("ef(topk(0.1) | float32)", "auto", False),
        ("stc(0.1)", "auto", False),
        ("gradient_dropping(0.1)", "auto", False),
        ("ef(topk(0.1) | float32)", "on", True),
        ("ef(topk(0.1) | float32, mask=true)", "auto", True),
        ("ef(cnat, 0.9, true)", "auto", True),
        ("ef(per_tensor(one_sided(0.1) | mean | golomb))", "auto", False),
        ("ef(one_sided(0.1) | mean | ans, mask=true)", "auto", True),
        ("by_name('size<9', raw, '*', sbc(0.1))", "auto", True),
        ("stc(0.1)", "ef", True),
        ("by_name('size<9', raw, '*', stc(0.1))", "auto", False),
        ("raw", "ef", False),
    ],
)
def test_masking(method: str, masking: str, masks: bool) -> None:
    assert RunConfig(method=method, training=Training(momentum_masking=masking)).plan.masks is masks


def test_rounds_stand_for_iterations(tmp_path: Path) -> None:
    config = RunConfig.of(rounds=5, temporal=4)
    assert (config.plan.rounds, config.plan.iterations) == (5, 20)
    assert config.chosen() == RunConfig.of(iterations=20, temporal=4).chosen()
    assert config.but(temporal=2).plan.iterations == 10
    assert config.but(iterations=8).plan.rounds == 2
    (tmp_path / "run.toml").write_text(config.to_toml())
    assert from_toml(tmp_path / "run.toml") == config


def test_local_epochs_stand_for_temporal(tmp_path: Path) -> None:
    config = RunConfig.of(rounds=5, local_epochs=2)
    plan = config.plan
    assert plan.rounds == 5 and [r for r in range(1, 6) if plan.ends(r, 0, 0.0)] == [5]
    said = {name: config.chosen().get(name) for name in ("local_epochs", "rounds")}
    assert said == {"local_epochs": 2, "rounds": 5}
    assert {"temporal", "iterations"}.isdisjoint(config.chosen())
    others = [config.but(rounds=10), config.but(local_epochs=1), RunConfig.of(rounds=5, temporal=2)]
    assert len({config.digest, *(other.digest for other in others)}) == 4
    assert config.but(temporal=4) == RunConfig.of(rounds=5, temporal=4)
    assert RunConfig.of(rounds=5, temporal=4).but(local_epochs=2) == config
    (tmp_path / "run.toml").write_text(config.to_toml())
    assert "temporal" not in config.to_toml() and from_toml(tmp_path / "run.toml") == config


def test_the_digest_is_of_what_the_numbers_depend_on() -> None:
    plain = RunConfig()
    same: list[dict[str, Any]] = [
        {"engine": "flower"},
        {"workers": 2},
        {"timeout": 1.0},
        {"keep_payloads": True},
        {"checkpoint_every": 3},
        {"data": "elsewhere"},
        {"clients": 4},
        {"cohort": 4},
        {"method": "sbc", "gradient": 0.01},
        {"momentum_masking": "on"},
        {"method": "ef(per_tensor(one_sided(0.01)|mean|golomb), mask=true)"},
        {"method": "ef(one_sided(0.01)|mean|golomb)", "momentum_masking": "on"},
        {"momentum_masking": "ef"},
        {"iterations": plain.plan.iterations},
        {"strategy": "dsgd(weighting=uniform)"},
    ]
    assert {RunConfig.of(**given).digest for given in same} == {plain.digest}
    changed: list[dict[str, Any]] = [
        {"seed": 1}, {"temporal": 9}, {"clients": 5}, {"cohort": 2}, {"method": "sbc(0.02)"},
        {"lr": 0.5}, {"partition": "shards(2)"}, {"strategy": "fedadam"},
        {"strategy": "fedadam", "server_lr": 0.3}, {"weighting": "samples"},
        {"downlink": "sbc(0.1)"}, {"batch_size": 5}, {"momentum_masking": "off"},
        {"iterations": 50}, {"evaluate_every": 3}, {"min_replies": 2}, {"task": "mnist_lenet5"},
        {"device": "cuda"}, {"momentum": 0.0}, {"network": "4g"},
    ]  # fmt: skip
    other = [RunConfig.of(**given) for given in changed]
    assert len({c.digest for c in other} | {plain.digest}) == len(other) + 1
    assert len(plain.digest) == 8 and int(plain.digest, 16) >= 0


TIMED = {"local_seconds": "500ms", "rounds": 5, "network": "4g, compute=20ms"}


def test_local_seconds_stand_for_temporal(tmp_path: Path) -> None:
    config = RunConfig.of(**TIMED)
    assert config.plan.rounds == 5 and config.local_seconds == 0.5
    assert {"temporal", "iterations"}.isdisjoint(config.chosen())
    others = [config.but(rounds=10), config.but(local_seconds=1), config.but(local_epochs=1)]
    assert len({config.digest, *(other.digest for other in others)}) == 4
    assert config.but(temporal=4) == RunConfig.of(**TIMED | {"local_seconds": None, "temporal": 4})
    assert config.but(temporal=4).but(local_seconds="0.5s") == config
    (tmp_path / "run.toml").write_text(config.to_toml())
    assert "temporal" not in config.to_toml() and from_toml(tmp_path / "run.toml") == config


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"temprl": 3}, ("here", "'temprl'", "temporal")),
        ({"temporal": "3"}, ("here", "temporal", "'3'", "int")),
        ({"temporal": 2.5}, ("here", "temporal", "2.5", "int")),
        ({"temporal": True}, ("here", "temporal", "True", "int")),
        ({"task": 3}, ("here", "task", "3", "str")),
        ({"lr": "fast"}, ("here", "lr", "'fast'", "float")),
        ({"download": 1}, ("here", "download", "1", "bool")),
        ({"temporal": None}, ("here", "temporal", "None")),
    ],
)
def test_wrong_types_are_refused(values: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as error:
        read(values)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("content", [b"temporal = ", b"\xff\xfe", b"temporal = 3\ntemporal = 4"])
def test_a_corrupt_file_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="config.toml cannot be read as TOML"):
        from_toml(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing.toml"):
        from_toml(tmp_path / "nothing.toml")


def test_a_change_is_checked_too() -> None:
    with pytest.raises(UsageError, match="--cohort is 9"):
        FULL.but(cohort=9)


def test_a_compressor_is_its_text() -> None:
    for method in (sbc(0.1), Pipeline(TopK(0.1), Float32()), parse("cnat")):
        config = RunConfig(method=method, downlink=method)
        assert config == RunConfig(method=text(method), downlink=text(method))
        assert config.plan.downlink == config.plan.method.compressor
        assert read({"method": method, "downlink": method}) == config
        assert SweepConfig.of(method=method).base.method == text(method)


def test_a_compressor_without_a_name_is_refused() -> None:
    class Mine(TopK):
        """A part of a user's own, without its row."""

    with pytest.raises(UsageError, match=r"--method: .*Mine.* is not in the catalogue"):
        RunConfig(method=Pipeline(Mine(0.1), Float32()))
    with pytest.raises(UsageError, match=r"--method: .*Mine.* is not in the catalogue"):
        SweepConfig.of(method=Pipeline(Mine(0.1), Float32()))


def test_numpys_numbers_and_paths_are_pythons(tmp_path: Path) -> None:
    config = RunConfig.of(temporal=np.int64(5), lr=np.float32(0.5), data=tmp_path)
    assert config == RunConfig.of(temporal=5, lr=0.5, data=str(tmp_path))
    assert "temporal = 5\n" in config.to_toml() and "lr = 0.5\n" in config.to_toml()
    grid = SweepConfig.of(temporal=np.array([1, 10]), gradient=[np.float32(0.5)], method="sbc")
    assert grid == SweepConfig.of(temporal=[1, 10], gradient=[0.5], method="sbc")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temporal": [1, 10]}, r"RunConfig: temporal is \[1, 10\]; it takes int"),
        ({"method": 3}, "RunConfig: method is 3; it takes str"),
        ({"clients": "many"}, r"RunConfig: clients is 'many'; it takes Clients\(...\)"),
        ({"clients": True}, r"RunConfig: clients is True; it takes Clients\(...\)"),
        ({"training": {"lr": 0.1}}, r"RunConfig: training is .*; it takes Training\(...\)"),
    ],
)
def test_a_value_of_another_type(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RunConfig(**settings)


def test_a_group_names_its_setting_as_flag_and_as_field() -> None:
    with pytest.raises(UsageError, match=r"Training: lr \(--lr\) is '0.1'; it takes float"):
        Training(lr="0.1")
    with pytest.raises(UsageError, match=r"Evaluation: every \(--evaluate-every\) is 2.5"):
        Evaluation(every=2.5)
    words = r"--clients is 0: give a number above 0 \(Clients.count\)"
    for refused in (lambda: Clients(0), lambda: RunConfig(clients=0)):
        with pytest.raises(UsageError, match=words):
            refused()
    with pytest.raises(UsageError, match=r"Machine: unknown setting 'worker' .did you mean"):
        Machine(worker=2)
    with pytest.raises(UsageError, match="batch_size stands in a group: write training=Training"):
        RunConfig(batch_size=8)
    with pytest.raises(UsageError, match="server_lr is the strategy's: write strategy='NAME"):
        RunConfig(server_lr=0.1)


def test_plain_values_stand_for_groups() -> None:
    config = RunConfig(clients=5, network="4g,compute=20ms", training=None)
    assert config == RunConfig(
        clients=Clients(5), network=Network("4g", compute="20ms"), training=Training()
    )
    assert RunConfig.of(clients=Clients(5), cohort=3).clients == Clients(5, cohort=3)
    assert config.but(cohort=2, network=None) == RunConfig(clients=Clients(5, cohort=2))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "batch_size = 32",
            r"batch_size = 32 goes in a table: write batch_size = 32 below "
            r"\[training\]",
        ),
        ("evaluate-every = 5", r"evaluate_every = 5 goes .* write every = 5 below .evaluation"),
        ("server_lr = 0.1", r"server_lr = 0.1 is the strategy's: write strategy = 'NAME"),
        ("training = 3", r"training is 3; it takes a table: \[training\]"),
        ("[training]\nbach_size = 3", r"\[training\]: unknown setting 'bach_size' .did you mean"),
        ("[networks]\nup = '1Mbit'", r"unknown setting 'networks' .did you mean network"),
    ],
)
def test_a_file_says_where_a_setting_stands(line: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(line)
    with pytest.raises(UsageError, match=f"run.toml: {words}"):
        from_toml(tmp_path / "run.toml")


def test_a_file_may_have_plain_values_and_a_network_s_table(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        "clients = 5\ntraining.lr = 0.5\n[network]\npreset = '4g'\ncompute = '20ms'\n"
    )
    config = from_toml(tmp_path / "run.toml")
    assert config == RunConfig.of(clients=5, lr=0.5, network="4g, compute=20ms")


def test_a_flag_goes_over_the_strategy_of_a_file_and_not_over_its_own() -> None:
    file = {"strategy": "fedadam(server_lr=0.5)"}
    assert over(file, {"server_lr": 0.3})["strategy"] == "fedadam(server_lr=0.3)"
    both = over(file, {"strategy": "fedadam(server_lr=0.2)", "server_lr": 0.3})
    with pytest.raises(UsageError, match="give server_lr once"):
        run_from_flat(both)


def test_a_folder_that_names_a_strange_task_s_file_is_refused(tmp_path: Path) -> None:
    check_tasks(tmp_path, [RunConfig()])
    (tmp_path / "config.toml").write_text('task = "mine.py:TASK"\n')
    with pytest.raises(UsageError, match="its config.toml names the task 'mine.py:TASK'"):
        check_tasks(tmp_path, [RunConfig()])
