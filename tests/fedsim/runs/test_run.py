"""A run's folder: what is in it, and what makes no difference."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from flwr.serverapp.strategy import FedAdam
from safetensors.torch import load_file

from fedsim import RunConfig, run
from fedsim.federation.trainer import build_model
from fedsim.runs.run import engine_of
from fedsim.settings.config import from_toml
from fedsim.settings.masks import resolve_masking
from tests.support.runs import assert_same, model, parts, rounds, small

COLUMNS = {
    "round": "int64", "iteration": "int64", "local_iterations": "int64", "clients": "int64",
    "failures": "int64", "failure_reasons": "str", "failed_up_bits": "int64", "metric": "float64",
    "absent": "int64", "returned": "int64", "lost": "int64", "down_news_bits": "int64",
    "loss": "float64", "train_loss": "float64",
    **{
        f"{way}_{name}_bits": "int64"
        for way in ("up", "down")
        for name in ("wire", "content", "header", "position", "value", "side", "buffer")
    },
    "up_message_bits": "int64", "down_message_bits": "int64", "total_bits": "int64",
    "up_sent": "int64", "up_fate_bits": "int64", "digest_payloads": "str", "digest_model": "str",
    **{
        f"{name}seconds": "float64"
        for name in ("", "train_", "encode_", "decode_", "downlink_", "receive_", "evaluate_")
    },
}  # fmt: skip
CLIENT_COLUMNS = {
    "round": "int64", "client": "int64", "samples": "int64", "up_wire_bits": "int64",
    "up_content_bits": "int64", "up_buffer_bits": "int64", "down_wire_bits": "int64",
    "up_sent": "int64", "train_loss": "float64", "failures": "int64", "failure_reasons": "str",
    "failed_up_bits": "int64", "down_news_bits": "int64", "returned": "int64", "lost": "int64",
    "up_message_bits": "int64", "down_message_bits": "int64", "up_fate_bits": "int64",
    "down_buffer_bits": "int64", "digest_down": "str", "digest_up": "str",
}  # fmt: skip


def types(frame: pd.DataFrame) -> dict[str, str]:
    """Each column's; pandas 2 has texts as objects."""
    return {c: str(t).replace("object", "str") for c, t in frame.dtypes.items()}


def test_the_folder_of_a_run(tmp_path: Path) -> None:
    config = small(iterations=18)
    out = tmp_path / "deep" / "run"
    summary = run(config, out).summary
    assert sorted(f.name for f in out.iterdir()) == [
        "clients.parquet",
        "config.toml",
        "environment.json",
        "final",
        "layers.parquet",
        "model.safetensors",
        "rounds.parquet",
        "summary.json",
    ]
    frame = pd.read_parquet(out / "rounds.parquet")
    assert types(frame) == COLUMNS
    by_client = pd.read_parquet(out / "clients.parquet")
    assert types(by_client) == CLIENT_COLUMNS
    by_layer = pd.read_parquet(out / "layers.parquet")
    assert list(by_layer.columns) == ["round", "tensor", "entries", "sent"]
    assert by_layer["entries"].dtype == "int64" and by_layer["sent"].dtype == "float64"
    assert frame["round"].tolist() == [1, 2, 3, 4]
    assert frame["iteration"].tolist() == [5, 10, 15, 18]
    assert frame["local_iterations"].tolist() == [5, 5, 5, 3]
    assert frame["metric"].notna().all()
    assert from_toml(out / "config.toml") == resolve_masking(config, config.plan)
    assert json.loads((out / "summary.json").read_text()) == summary
    weights = load_file(out / "model.safetensors")
    shapes = {n: p.shape for n, p in build_model(config.plan.task, 0).named_parameters()}
    assert {n: x.shape for n, x in weights.items()} == shapes


def test_the_summary(tmp_path: Path) -> None:
    summary = run(small(seed=2, clients=3), tmp_path).summary
    expected = {
        "task": "digits", "method": "ef(per_tensor(one_sided(0.05) | mean | golomb))",
        "temporal": 5, "gradient": 0.05, "seed": 2, "clients": 3, "iterations": 20, "rounds": 4,
        "parameters": 21_386, "metric_name": "accuracy", "higher_is_better": True,
        "total_sparsity": 0.01, "engine": "local", "status": "done", "error": None,
    }  # fmt: skip
    assert {k: summary[k] for k in expected} == expected
    last = pd.read_parquet(tmp_path / "rounds.parquet").iloc[-1]
    assert (summary["metric"], summary["loss"]) == (last["metric"], last["loss"])
    assert "scikit-learn" in summary["data_source"]


def test_progress_is_told(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    run(small(), tmp_path, callbacks=[rows.append])
    assert [row["round"] for row in rows] == [1, 2, 3, 4]
    assert [row["up_wire_bits"] for row in rows] == rounds(tmp_path)["up_wire_bits"].tolist()


def test_again_is_the_same_and_another_seed_is_not(finished: Path, tmp_path: Path) -> None:
    for seed in (0, 1):
        run(small(seed=seed, keep_payloads=True), tmp_path / str(seed))
    assert_same(finished, tmp_path / "0")
    assert model(finished) != model(tmp_path / "1")


def test_a_server_learning_rate(make_task: Any, tmp_path: Path) -> None:
    task = make_task()
    for rate in (0.01, 0.02):
        config = RunConfig.of(
            task=task.name, method="raw", temporal=12, strategy="fedadam", server_lr=rate
        )
        run(config, tmp_path / str(rate))
    start = {n: p.detach() for n, p in build_model(task, 0).named_parameters()}
    one, two = (load_file(tmp_path / str(rate) / "model.safetensors") for rate in (0.01, 0.02))
    for name, x in start.items():
        assert ((two[name] - x) - 2 * (one[name] - x)).abs().max() < 1e-5


def test_what_a_kill_left_behind_is_cleared(tmp_path: Path) -> None:
    (tmp_path / "payloads" / "round-00001").mkdir(parents=True)
    (tmp_path / ".0011.part").write_bytes(b"half")
    (tmp_path / ".2233.part").mkdir()
    (tmp_path / ".2233.part" / "memory.safetensors").write_bytes(b"half")
    (tmp_path / ".2233.part" / ".4455.part").write_bytes(b"half")
    (tmp_path / "payloads" / "round-00001" / ".6677.part").write_bytes(b"half")
    run(small(keep_payloads=True), tmp_path)
    assert not parts(tmp_path)


def test_environment_and_config_name_no_machine(finished: Path) -> None:
    environment = json.loads((finished / "environment.json").read_text())
    assert environment["packages"]["torch"] and environment["cores"] >= 1
    text = (finished / "environment.json").read_text()
    assert str(finished) not in text and str(Path.home()) not in text
    assert "out" not in tomllib.loads((finished / "config.toml").read_text())


def test_the_summary_says_what_trained_the_model(tmp_path: Path) -> None:
    summary = run(small(clients=2), tmp_path / "a").summary
    found = summary["settings"]
    assert {name: found[name] for name in ("optimizer", "lr", "momentum", "batch_size")} == {
        "optimizer": "SGD",
        "lr": 0.02,
        "momentum": 0.9,
        "batch_size": 32,
    }
    assert (found["clients"], found["cohort"], found["partition"]) == (2, 2, "iid")
    assert found["downlink"] == "raw" and found["momentum_masking"] is True
    assert found["weighting"] == "uniform" and "server_lr" not in found
    given = run(small(strategy="fedadam", lr=0.5, momentum=0.0, batch_size=8), tmp_path / "b")
    found = given.summary["settings"]
    assert (found["lr"], found["momentum"], found["batch_size"]) == (0.5, 0.0, 8)
    assert found["server_lr"] == FedAdam().eta


def test_actors_have_the_app_and_the_memories_of_all_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, grids = list[Any](), list[Any]()

    @contextmanager
    def on_ray(*arguments: Any) -> Iterator[str]:
        asked.append(arguments)
        yield "grid"

    monkeypatch.setattr("fedsim.engines.workers.on_ray", on_ray)
    memories, engine = engine_of(small(engine="ray", workers=2))
    engine(grids.append)
    ((app_of, *others, _),) = asked
    assert grids == ["grid"] and callable(app_of)
    assert others == [4, memories, 2, None]


def test_a_schedule_does_not_change_the_rate_that_is_told(make_task: Any, tmp_path: Path) -> None:
    task = make_task(lr_steps=((2, 0.1),))
    found = run(RunConfig(task=task.name, method="raw", temporal=4), tmp_path).summary["settings"]
    assert (found["lr"], found["lr_steps"]) == (0.1, [[2, 0.1]])
