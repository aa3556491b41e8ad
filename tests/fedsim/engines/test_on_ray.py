"""The engines ray and flower beside the local one: the same bytes, metrics, bits and weights.

Each case combines what the engines could treat differently; what a setting does is proved on the
local engine.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor, nn

from compressors import ALL, CATALOGUE, BitReader, BitWriter, Row, SentTensor
from fedsim import RunConfig, RunFailed, UsageError, run
from fedsim.tasks import from_torch
from tests.fedsim.federation.test_optimizer_memory import Counting
from tests.fedsim.tasks.test_lazy import SETTINGS, folder, folder_task
from tests.support.asyncruns import asynchronous
from tests.support.encoders import Encoder, Sentences, padded
from tests.support.faults import told
from tests.support.interrupting import Stopped, recording, stop_after
from tests.support.killing import killed_once
from tests.support.markdown import ROOT, blocks
from tests.support.runs import assert_same, make_task, payloads, rounds, run_module, small

__all__ = ["make_task"]  # the fixture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


HELD = ("held", "held_norm")
ON_RAY = ("ray", "flower")
TREE = "compute=1ms, up=1Mbit, topology=tree(groups=2)"


@dataclass(frozen=True)
class Plain:
    """A codec of a user's own: float32, as it is."""

    needs_seed: ClassVar[bool] = False

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        out.float32s(x.numpy())
        return SentTensor(x, ALL, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        return torch.from_numpy(bits.float32s(template.numel())).view(template.shape)


class Drawing(nn.Module):
    """BatchNorm, whose statistics travel, and dropout that draws from torch's global generator."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.dropout(self.norm(self.first(x)), 0.2, self.training))


def on_all(config: RunConfig, folder: Path, cluster: str, engines: Sequence[str] = ON_RAY) -> None:
    """Runs it on one thread, on two workers and on ``engines``; compares all."""
    run(config, folder / "local", progress=False)
    run(config.but(workers=2), folder / "workers", progress=False)
    for engine in engines:
        run(config.but(engine=engine), folder / engine, progress=False, ray_address=cluster)
    for name in ("workers", *engines):
        assert_same(folder / "local", folder / name)


def clocks(folder: Path, engines: Sequence[str] = ON_RAY) -> Iterator[pd.Series]:
    """The simulated end of each round, by engine."""
    for engine in ("local", *engines):
        yield pd.read_parquet(folder / engine / "rounds.parquet")["sim_end_seconds"]


def test_whatever_a_client_remembers(
    make_task: Any, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Task, codec, optimizer of a user's own; residuals, buffers, draws, schedule, orders."""
    monkeypatch.setitem(CATALOGUE, "plain", Row("plain", "codec", Plain, "T", "here", "plain"))
    task = make_task(build=Drawing, optimizer=Counting, lr_steps=((6, 0.1),), clients=4)
    config = RunConfig.of(
        task=task,
        method="ef(topk({p}) | float32 | golomb)",
        gradient=0.2,
        downlink="ef(plain)",
        temporal=3,
        iterations=12,
        evaluate_every=2,
        cohort=3,
        seed=3,
        buffers="mean",
        controller="plateau(1, better=0.9)",
        keep_payloads=True,
    )
    on_all(config, tmp_path, cluster)
    frame = rounds(tmp_path / "ray")
    assert frame["local_iterations"].nunique() > 1 and frame["up_buffer_bits"].gt(0).all()
    assert len(payloads(tmp_path / "ray")) == 2 * 2 * 3 * len(frame)  # buffers beside each


@pytest.mark.parametrize(("kind", "engine"), [("dicts", "flower"), ("images", "ray")])
def test_batches_of_dicts_and_files_read_when_needed(
    kind: str, engine: str, cluster: str, tmp_path: Path
) -> None:
    """An encoder of sentences, and a folder of images that is not read whole, as Flower's apps.

    Ray's pickle carries the same app for both engines: each task travels with one of them. Edge
    servers average what clients send.
    """
    sentences = from_torch(Sentences(60, padded), 0.25, Encoder, name="films", batch_size=8)
    images = folder_task(folder(tmp_path / "images", 60), lazy=True)
    task = sentences if kind == "dicts" else images
    config = RunConfig.of(task=task, network=TREE, **SETTINGS)
    on_all(config, tmp_path, cluster, [engine])


def test_what_others_sent_is_relayed(cluster: str, tmp_path: Path) -> None:
    config = small(
        clients=4,
        cohort=3,
        downlink="relay",
        weighting="samples",
        keep_payloads=True,
        network="1gbit, compute=20ms",
        dropout="after=0.2",
    )
    on_all(config, tmp_path, cluster)
    local, *others = clocks(tmp_path)
    assert all(map(local.equals, others)) and "relay" in " ".join(payloads(tmp_path / "ray"))


@pytest.mark.parametrize(("name", "engine"), [("sharded", "ray"), ("fewer at work", "flower")])
def test_servers_that_do_not_wait(name: str, engine: str, cluster: str, tmp_path: Path) -> None:
    """Messages go to Ray together, and updates are taken in by the clock: the same run."""
    on_all(asynchronous(name, keep_payloads=True), tmp_path, cluster, [engine])
    local, *others = clocks(tmp_path, [engine])
    assert all(map(local.equals, others)) and (local.diff().dropna() > 0).all()
    assert rounds(tmp_path / "local")["staleness"].max() > 0


def test_a_killed_actor_is_replaced_and_nothing_differs(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, marker = run_module.make_client_app, tmp_path / "killed"

    class Dying(ClientApp):
        def __init__(self, app: ClientApp) -> None:
            super().__init__()
            self.app = app

        def __call__(self, message: Message, context: Context) -> Message:
            if round_of(message) == 3 and context.node_config["partition-id"] == 1:
                killed_once(marker)
            return self.app(message, context)

    config = small(clients=3)
    run(config, tmp_path / "local")
    monkeypatch.setattr(run_module, "make_client_app", lambda *given: Dying(real(*given)))
    with caplog.at_level(logging.WARNING, logger="fedsim"):
        run(config.but(engine="ray"), tmp_path / "ray", ray_address=cluster)
    assert marker.exists() and "Ray lost a worker (1 so far) and replaces it" in caplog.text
    assert caplog.text.count("Ray lost a worker") == 1
    assert_same(tmp_path / "local", tmp_path / "ray")
    told("Ray worker killed", "an actor", 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_run_that_is_killed_goes_on_elsewhere(cluster: str, tmp_path: Path) -> None:
    """From where it was, its clients' residuals with it: from engine to engine, a round on each."""
    config = small(clients=4, cohort=2, downlink="sbc(0.05)", checkpoint_every=1)
    whole = run(config, tmp_path / "whole").summary
    seen, out = list[int](), tmp_path / "out"
    for done, engine in enumerate(("ray", "flower", "ray"), 1):
        calls = [recording(seen), stop_after(done)]
        with pytest.raises(Stopped):
            run(config.but(engine=engine), out, ray_address=cluster, callbacks=calls)
    last = run(config, out, callbacks=[recording(seen)])
    assert seen == [1, 2, 3, 4]
    assert_same(tmp_path / "whole", out)
    assert {k: last.summary[k] for k in HELD} == {k: whole[k] for k in HELD}
    told("run on Ray stopped", "from engine to engine", 3)


def round_of(message: Message) -> int:
    """The round of a message to train; 0 of another."""
    records = message.content.config_records.values()
    return next((int(str(record["round"])) for record in records if "round" in record), 0)


@pytest.mark.parametrize("engine", ON_RAY)
def test_what_a_client_raises_is_told_in_a_line(engine: str, cluster: str, tmp_path: Path) -> None:
    config = small(lr=1e30, engine=engine, clients=2)
    with pytest.raises(RunFailed, match=r"round 1: 0 of 2 .*client 0: .*holds NaN or infinity"):
        run(config, tmp_path / "out", ray_address=cluster)
    assert "RunFailed" in (tmp_path / "out" / "error.txt").read_text()
    with pytest.raises(UsageError, match="--ray-address is '127.0.0.1:1': no Ray cluster there"):
        run(config, tmp_path / "none", ray_address="127.0.0.1:1")


OWN = next(b.text for b in blocks(ROOT / "docs" / "own-task.md") if b.language == "python")

SCRIPT = (
    OWN.split("result = ")[0]
    + """
import sys
from dataclasses import dataclass
from typing import ClassVar
import torch
from compressors import ALL, CATALOGUE, Row, SentTensor

@dataclass(frozen=True)
class Plain:
    fails: bool = False
    needs_seed: ClassVar[bool] = False
    def write(self, x, out, seed):
        if self.fails:
            raise RuntimeError("this fails on purpose")
        out.float32s(x.numpy())
        return SentTensor(x, ALL, x.shape)
    def read(self, bits, like, seed):
        return torch.from_numpy(bits.float32s(like.numel())).view(like.shape)

CATALOGUE["plain"] = Row("plain", "codec", Plain, "T", "here", "plain")
for engine in ("local", "ray", "flower"):
    config = fedsim.RunConfig.of(task=spirals, engine=engine, iterations=20, method="ef(plain)")
    address = None if engine == "local" else sys.argv[1]
    print(fedsim.run(config, engine, ray_address=address).summary["loss"])
cells = [fedsim.Cell(name, fedsim.RunConfig(task=spirals, iterations=10, method=method))
         for name, method in (("good", "ef(plain)"), ("bad", "plain(true)"))]
for cell in fedsim.run_cells(cells, "cells", jobs=2, ray_address=sys.argv[1]):
    print(cell["status"], cell.get("error"))
"""
)


def test_what_is_defined_in_the_main_module_is_known(cluster: str, tmp_path: Path) -> None:
    """As in a notebook: a task and a codec, in runs on Ray's engines and in cells on Ray."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, cluster],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    local, ray, flower, good, bad = done.stdout.splitlines()[-5:]
    assert local == ray == flower
    assert good == "done None"
    assert bad.startswith("failed round 1: 0 of") and "on purpose" in bad
