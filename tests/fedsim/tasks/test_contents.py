"""What a user's files and data hold is part of a run: an edit is told, and no table mixes two."""

import hashlib
import os
import pickle
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fedsim
from compressors import CATALOGUE, add_rows, row_files
from compressors.usercode import content
from fedsim import TASKS, RunConfig, SweepConfig, UsageError, run
from fedsim import sweep as sweep_over
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import start_of
from fedsim.ground.errors import DataError
from fedsim.settings import contents
from fedsim.settings.config import from_toml
from fedsim.settings.masks import resolve_masking
from fedsim.tasks import datacache
from fedsim.tasks.data import datafiles, samples
from fedsim.tasks.data.images import Pixels
from fedsim.tasks.datacache import load_data
from strategies import DSGD
from tests.support.commands import Said, Typed, files, refused

TASK = """
from dataclasses import replace
from pathlib import Path
import torch
from torch import nn
import helper
from fedsim import Data, Task
from fedsim.tasks import from_csv


def load(folder, download):
    lines = (folder / "own.csv").read_text().split()[1:]
    table = torch.tensor([[float(x) for x in line.split(",")] for line in lines])
    return Data(table[:30, :2], table[:30, 2].long(), table[30:, :2], table[30:, 2].long(), "own")


def look(folder, download):
    return load(Path(__file__).parent / "data", download)


FIELDS = dict(iterations=10, clients=2)
CSV = from_csv("a.csv", helper.build, name="mine", label="y", **FIELDS)
OWN = Task(name="own", build=helper.build, load=load, loss=CSV.loss, metric=CSV.metric,
           optimizer=CSV.optimizer, **FIELDS)
AWAY = replace(OWN, name="away", load=look)
"""
HELPER = """
from torch import nn
WIDTH = 2


def build():
    return nn.Sequential(nn.Linear(2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))
"""
STRATEGY = """
from dataclasses import dataclass
from strategies import DSGD


@dataclass(frozen=True)
class Mine(DSGD):
    pass
"""
ROWS = """
from compressors import CATALOGUE, Row
CATALOGUE["half"] = Row("half", "method", "half(p) = topk(p) | float16", "Half", "me", "half(0.5)")
"""


@pytest.fixture(autouse=True)
def folder(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a task, what it imports, and its data."""
    write(Path())
    for name in ("mine", "own", "away", "made"):
        monkeypatch.delitem(TASKS, name, raising=False)
    return Path()


def write(folder: Path) -> None:
    for name, text in (("task.py", TASK), ("helper.py", HELPER), ("strategy.py", STRATEGY)):
        (folder / name).write_text(text)
    table = pd.DataFrame({"a": range(40), "b": [x % 7 for x in range(40)], "y": [0, 1] * 20})
    (folder / "data").mkdir(exist_ok=True)
    for name in ("a.csv", "data/own.csv"):
        table.to_csv(folder / name, index=False)


def edit(file: str, old: str, new: str) -> None:
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new, 1))
    datacache._load_data.cache_clear()  # as in another process
    datacache.cached_content.cache_clear()


def sweep(typed: Typed, *more: str, task: str = "task.py:CSV", temporal: str = "2") -> Said:
    return typed(
        "sweep",
        "--task",
        task,
        "--method",
        "raw",
        "--temporal",
        temporal,
        "--data",
        "data",
        "--jobs",
        "1",
        "--no-baseline",
        *(more or ("--out", "out")),
    )


EDITS = {
    "a module beside it": ("task.py:CSV", ("helper.py", "WIDTH = 2", "WIDTH = 4")),
    "its table": ("task.py:CSV", ("a.csv", "\n3,3,1\n", "\n3,4,1\n")),
    "what load finds itself": ("task.py:AWAY", ("data/own.csv", "\n3,3,1\n", "\n3,4,1\n")),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", EDITS)
def test_an_edit_between_two_sweeps_is_told_in_a_line(
    what: str, typed: Typed, no_page: None
) -> None:
    task, change = EDITS[what]
    assert sweep(typed, task=task).code == 0
    assert "were finished before" in sweep(typed, task=task).err
    before = files(Path("out"))
    edit(*change)
    said = "the data of task" if change[0].endswith("csv") else "or a module that it imports"
    refused(sweep(typed, task=task), "--out is out", said, "choose another folder")
    refused(sweep(typed, task=task, temporal="5"), "no table can hold both", said)  # it grows
    assert files(Path("out")) == before
    assert sweep(typed, "--out", "other", task=task).code == 0
    with pytest.raises(UsageError, match="cannot stand in one table: "):
        fedsim.load("out", "other")
    edit(change[0], change[2], change[1])
    again = sweep(typed, task=task, temporal="2,5")
    assert again.code == 0 and "files" not in again.err


@pytest.mark.slow
def test_one_folder_s_runs_are_compared(typed: Typed, no_page: None) -> None:
    """A folder may come from anywhere: what two commands left is put together by hand."""
    assert sweep(typed).code == 0
    edit("helper.py", "WIDTH = 2", "WIDTH = 4")
    assert sweep(typed, "--out", "other", temporal="5").code == 0
    shutil.copytree("other/cells/n5-p1-s0", "out/cells/n5-p1-s0")
    with pytest.raises(UsageError, match="cannot stand in one table: "):
        fedsim.load("out")
    refused(typed("report", "out"), "cannot stand in one table")
    for folder in ("out/cells/n2-p1-s0", "out/cells/n5-p1-s0"):  # as an earlier version wrote them
        file = Path(folder, "config.toml")
        file.write_text(file.read_text().partition("[content")[0])
    with pytest.raises(UsageError, match="parameters is 12 in the one and 22 in the other"):
        fedsim.load("out")


@pytest.mark.slow
def test_moving_unchanged_files_changes_nothing(typed: Typed, no_page: None) -> None:
    config = RunConfig(task="task.py:CSV", strategy="strategy.py:Mine")
    before = config.digest
    assert sweep(typed, "--strategy", "strategy.py:Mine", "--out", "out").code == 0
    cells = files(Path("out/cells"))
    Path("there").mkdir()
    for old, new in (
        ("task.py", "renamed.py"),
        ("helper.py", "helper.py"),
        ("strategy.py", "other.py"),
        ("a.csv", "data/a.csv"),
    ):
        shutil.move(old, f"there/{new}" if new.endswith(".py") else new)
    shutil.move("data", "elsewhere")
    place = {"task": "there/renamed.py:CSV", "strategy": "there/other.py:Mine"}
    assert RunConfig.of(**place, data="elsewhere").digest == before
    said = typed("sweep", "--task", place["task"], "--method", "raw", "--temporal", "2,5",
                 "--strategy", place["strategy"], "--data", "elsewhere", "--jobs", "1",
                 "--no-baseline", "--out", "out")  # fmt: skip
    assert said.code == 0 and "files" not in said.err
    now = files(Path("out/cells"))
    kept = {name for name in cells if not name.endswith("config.toml")}
    assert {name: now[name] for name in kept} == {name: cells[name] for name in kept}
    assert [*fedsim.load("out").runs["label"].unique()] == ["raw"]


@pytest.mark.slow
def test_other_initial_weights_are_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig(method="raw", iterations=10)
    first = run(config, "out", progress=False)
    assert contents.recorded_content(Path("out"), "start")["weights"]
    file = Path("out/config.toml")
    text = file.read_text()
    file.write_text(text.replace('weights = "', 'weights = "0'))  # of another torch
    again = run(config, "out", progress=False)
    assert again.summary == first.summary
    assert ["it began otherwise than it would now" in line for line in caplog.messages] == [True]
    shutil.copytree("out", "other")
    file.write_text(text)
    caplog.clear()
    fedsim.load("out", "other")
    assert "seed 0 and other initial weights" in caplog.text


def test_fedsim_s_own_have_no_digests() -> None:
    for settings in ({}, {"task": "mnist_lenet5", "data": "data"}, {"strategy": "fedadam"}):
        config = RunConfig.of(**settings)
        assert config.content == {} and config.identity() == config.chosen()
    assert RunConfig().digest == "b6662c24"


def test_a_run_takes_its_content_to_other_processes() -> None:
    config = RunConfig.of(task="task.py:CSV", strategy="strategy.py:Mine")
    assert {*config.content} == {"task", "strategy", "data"}
    there = pickle.loads(cloud(config))
    Path("a.csv").unlink()
    edit("helper.py", "WIDTH = 2", "WIDTH = 4")
    assert there == config and there.content == config.sent if config.sent else there.sent
    assert there.digest == pickle.loads(cloud(there)).digest


def cloud(config: RunConfig) -> bytes:
    import cloudpickle

    made: bytes = cloudpickle.dumps(config)
    return made


def test_a_worker_whose_data_are_others_refuses() -> None:
    there = pickle.loads(cloud(RunConfig.of(task="task.py:CSV")))
    edit("a.csv", "\n3,3,1\n", "\n3,4,1\n")
    with pytest.raises(DataError, match="not those with which the run was started .samples"):
        ClientData.of(there)


def test_rows_count_where_a_run_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "half", CATALOGUE["raw"])  # gone when the test is over
    Path("rows.py").write_text(ROWS)
    add_rows("rows.py")
    assert row_files() == {"half": content(Path("rows.py"))}
    own, other = RunConfig(method="half(0.5)"), RunConfig(method="sbc(0.5)")
    assert own.content == {"rows": row_files()} and other.content == {}
    before = own.digest
    edit("rows.py", "Half", "Halves")
    add_rows("rows.py")
    assert RunConfig(method="half(0.5)").digest != before
    CATALOGUE["half"] = CATALOGUE["sbc"]  # defined again, in Python
    assert row_files() == {}


def test_imports_are_found_without_executing_them(tmp_path: Path) -> None:
    texts = {
        "mine.py": "import one.two\nfrom three import four\ndef f():\n    import five\n1 / 0\n",
        "one/__init__.py": "",
        "one/two.py": "from . import deep\nfrom .. import none\n",
        "one/deep.py": "x = 1\n",
        "three/four.py": "import mine\n",
        "five.py": "",
        "unused.py": "",
        "one/unused.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    whole = content(tmp_path / "mine.py")
    for name, text in texts.items():
        (tmp_path / name).write_text(text + "# edited\n")
        assert (content(tmp_path / "mine.py") == whole) == ("unused" in name), name
        (tmp_path / name).write_text(text)
        assert content(tmp_path / "mine.py") == whole
    (tmp_path / "mine.py").rename(tmp_path / "renamed.py")
    assert content(tmp_path / "renamed.py") != whole or "mine" in texts["three/four.py"]


def test_a_data_folder_is_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.csv").write_text("1")
    before = datafiles.content_digest(tmp_path)
    assert before.startswith("bytes ")
    for name in (".hidden", "task.py", "out/environment.json", "out/cells/a/summary.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")  # results and code are no data
    assert datafiles.content_digest(tmp_path) == before
    (tmp_path / "below" / "a.csv").write_text("2 ")
    assert datafiles.content_digest(tmp_path) != before
    monkeypatch.setattr(datafiles, "DIGEST_BYTES", 1)
    assert datafiles.content_digest(tmp_path).startswith("names, sizes and times ")


@pytest.mark.parametrize("task", ["CSV", "OWN"])
def test_changed_data_are_read_again_in_one_process(task: str) -> None:
    config = RunConfig.of(task=f"task.py:{task}", data="data")
    first, digest = ClientData.of(config).data, config.content["data"]
    assert ClientData.of(config).data is first
    file = Path("a.csv" if task == "CSV" else "data/own.csv")
    file.write_text(file.read_text().replace("\n3,3,1\n", "\n3,14,1\n"))
    assert config.content["data"] != digest
    assert ClientData.of(config).data is not first


@pytest.mark.parametrize("task", ["CSV", "OWN", "AWAY"])
def test_files_that_are_not_read_do_not_count(task: str) -> None:
    config = RunConfig.of(task=f"task.py:{task}", data="data")
    before, federation = config.identity(), ClientData.of(config)
    assert before["content"]["data"] and str(before["content"]["data"]).count("samples ") == 1
    for name in ("run.log", "mlruns/0/meta.yaml", "wandb/run/files.db"):
        path = Path("data", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("anything")
    Path("data", "nowhere").symlink_to("gone")
    os.mkfifo("data/pipe")
    assert config.identity() == before and ClientData.of(config) is federation
    assert RunConfig.of(task=f"task.py:{task}", data="data").identity() == before


@dataclass(frozen=True)
class OnDemand:
    """Inputs that are read when a batch needs them."""

    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: Any) -> torch.Tensor:
        return torch.zeros(len(torch.arange(self.count)[index]), 2)


def test_of_inputs_on_demand_the_files_count(monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = RunConfig(task="task.py:OWN").plan.task
    y = torch.arange(8) % 2

    def load(folder: Path | None, download: bool) -> fedsim.Data:
        return fedsim.Data(OnDemand(8), y, OnDemand(8), y, "files")

    task = replace(own, name="made", load=load)
    before = load_data(task, "data", False).content
    assert before.startswith("bytes ") and load_data(task, None, False).content.startswith(
        "samples "
    )
    Path("data", "nowhere").symlink_to("gone")
    os.mkfifo("data/pipe")
    assert datafiles.content_digest(Path("data")) == before
    Path("data", "b.png").write_text("1")
    assert load_data(task, "data", False).content != before

    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    datafiles._digest.cache_clear()
    monkeypatch.setattr(datafiles, "digest", refuse)
    with pytest.raises(DataError, match="data: .* cannot be read: Permission denied"):
        datafiles.content_digest(Path("data"))


@pytest.mark.parametrize("part", ["train_x", "train_y", "test_x", "test_y", "labels", "scale"])
def test_every_part_of_the_data_counts(part: str) -> None:
    pixels = Pixels(torch.zeros(4, 1, 2, 2, dtype=torch.uint8), (0.5,), (0.25,))
    whole = fedsim.Data(
        pixels,
        torch.zeros(4),
        torch.zeros(3, 0, 2),
        torch.zeros(3).bfloat16(),
        "a",
        torch.zeros(4, dtype=torch.int64),
    )
    other: dict[str, Any] = {
        "train_x": replace(pixels, stored=pixels.stored + 1),
        "test_x": torch.zeros(3, 2, 0),
        "scale": replace(pixels, mean=(0.75,)),
    }
    name = "train_x" if part == "scale" else part
    changed = other[part] if part in other else getattr(whole, part) + 1
    assert samples.memory_digest(replace(whole, **{name: changed})) != samples.memory_digest(whole)
    assert samples.memory_digest(replace(whole, source="b")) == samples.memory_digest(whole)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["float32", "U3", "object", "bool"])
def test_a_digest_copies_no_array(order: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(60).reshape(20, 3).astype(kind, order=order)
    plain = hashlib.blake2b(f"{values.dtype} {values.shape}".encode(), digest_size=8)
    plain.update(repr(values.tolist()).encode() if kind == "object" else values.tobytes())
    monkeypatch.setattr(samples, "_PIECE", 50)  # some rows at a time
    seen = []
    copied = np.ascontiguousarray
    monkeypatch.setattr(samples.np, "ascontiguousarray", lambda x: seen.append(len(x)) or copied(x))
    assert samples._digest([values, None]) == f"samples {plain.hexdigest()}"
    assert kind == "object" or (sum(seen) == 20 and max(seen) <= 16)
    assert samples._digest([values[:0]]) != samples._digest([values[:0, :1]])


def test_initial_weights_are_of_the_data_of_today() -> None:
    own: Any = RunConfig(task="task.py:OWN").plan.task
    size = [2]

    def load(folder: Path | None, download: bool) -> fedsim.Data:
        x, y = torch.ones(8, size[0]), torch.arange(8) % 2
        return fedsim.Data(x, y, x, y, "made")

    task = replace(
        own,
        name="made",
        load=load,
        from_data=True,
        build=lambda data: torch.nn.Linear(data.train_x.shape[1], 2),
    )
    config = RunConfig.of(task=task, data="data")
    before = start_of(config)
    size[0] = 3
    edit("data/own.csv", "\n3,3,1\n", "\n3,4,1\n")
    assert start_of(config) != before


def test_load_sums_with_one_thread() -> None:
    """Sums of floats, and with them the digest, would depend on the number of cores."""
    own: Any = RunConfig(task="task.py:OWN").plan.task
    seen = []

    def load(folder: Path | None, download: bool) -> fedsim.Data:
        seen.append(torch.get_num_threads())
        return own.load(Path("data"), download)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        load_data(replace(own, name="made", load=load), None, False)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_verify_looks_at_no_run_of_other_files(typed: Typed, no_page: None) -> None:
    assert sweep(typed).code == 0
    edit("helper.py", "WIDTH = 2", "WIDTH = 4")
    said = typed("verify", "out", "--own", "task.py:CSV", "--rerun")
    assert said.code == 1 and "files have changed" in said.out + said.err


def test_a_config_is_read_with_its_digests() -> None:
    config = RunConfig.of(task="task.py:CSV", method="raw", temporal=2)
    run(config, "out", progress=False)
    read = from_toml(Path("out/config.toml"), trust_code=True)
    assert read == resolve_masking(config, config.plan)
    assert contents.recorded_content(Path("out")) == config.content


def test_strategies_of_one_name_in_two_files_are_two_values(tmp_path: Path) -> None:
    """Where their files hold the same they are one."""
    for folder, text in (("a", STRATEGY), ("b", STRATEGY + "# other\n"), ("c", STRATEGY)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(text)
    places = [f"{tmp_path / folder}/mine.py:Mine" for folder in "abc"]
    cells = SweepConfig.of(temporal=[2], method="raw", vary={"strategy": places}).cells()
    strategies = [cell.config.plan.strategy for cell in cells]
    assert sorted(strategies[:2]) == strategies[2:] == places[:2]  # a reference each


def test_strategies_of_one_name_in_python_are_not_one_cell() -> None:
    kinds = [dataclass(frozen=True)(type("Mine", (DSGD,), {"by": by})) for by in (1, 2)]
    grid = SweepConfig.of(temporal=[2], method="raw", vary={"strategy": [k() for k in kinds]})
    with pytest.raises(UsageError, match="is the name of two"):
        sweep_over(grid, "out")
