"""A stranger's folder is refused in one line that names the file, within bounds, or is neutral."""

import csv
import json
import os
import pickle
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedsim import UsageError, load
from fedsim.ground.strangers import check_file, table_of
from fedsim.results.neutral import csv_text
from fedsim.show.markup import latex
from tests.support.commands import Typed
from tests.support.sweepmaker import make_sweep

CELL = Path("cells") / "n10-p0.1-s0"


def fifo(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def device(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to("/dev/zero")


def link(file: Path) -> None:
    """To a file of the same content that lies elsewhere."""
    there = file.parents[3] / f"private-{file.name}"
    if file.exists():
        shutil.move(file, there)
    else:
        there.write_text("secret")
    file.symlink_to(there)


def levels(file: Path) -> None:
    """Valid TOML or JSON of 100,000 levels."""
    many = 100_000
    text = "[" * many + "]" * many
    file.write_text(f"a = {text}" if file.suffix == ".toml" else text)


class Executed:
    """An object whose unpickling makes a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


def pickled(file: Path) -> None:
    """A pickle that makes the file ``executed`` beside it when it is read."""
    file.write_bytes(pickle.dumps(Executed(file.with_name("executed"))))


def garbage(file: Path) -> None:
    file.write_bytes(b"no database" * 100)


def texts_bomb(file: Path) -> None:
    """A text of a megabyte that three thousand rows repeat: 3 GB in memory."""
    words = pa.array(["x" * 2**20])
    rows = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3000, np.int32)), words)
    table = pa.table({"round": np.arange(3000), "a": rows})
    pq.write_table(table, file, compression="zstd", store_schema=False)


def rows_bomb(file: Path) -> None:
    """Columns of one number: 60 million rows are some kB, and 480 MB of each in memory."""
    kinds = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    with pq.ParquetWriter(file, kinds, compression="zstd") as writer:
        part = pa.table({name: np.zeros(10**7, np.int64) for name in kinds.names})
        for _ in range(6):
            writer.write_table(part)


ODD: list[tuple[str, Callable[[Path], None]]] = [
    *(
        (name, make)
        for name in ("summary.json", "rounds.parquet", "config.toml")
        for make in (fifo, device, link)
    ),
    ("environment.json", fifo),
    ("environment.json", link),
    ("summary.json", pickled),
    ("rounds.parquet", pickled),
    ("config.toml", levels),
    ("summary.json", levels),
    ("environment.json", levels),
    ("rounds.parquet", texts_bomb),
    ("rounds.parquet", rows_bomb),
    ("layers.parquet", rows_bomb),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers") / "sweep"
    make_sweep(folder, (1, 10), (1, 0.1))
    return folder


@pytest.fixture
def bounded() -> Iterator[None]:
    """The process gets no more than 1.5 GB above what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * os.sysconf("SC_PAGE_SIZE") + 3 * 2**29
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "make"), ODD, ids=[f"{n}-{m.__name__}" for n, m in ODD])
def test_each_command_refuses_it_in_one_line(
    name: str,
    make: Callable[[Path], None],
    whole: Path,
    typed: Typed,
    tmp_path: Path,
    bounded: None,
) -> None:
    sweep = Path(shutil.copytree(whole, tmp_path / "x" / "sweep"))
    make(sweep / CELL / name)
    commands = [("report", sweep), ("verify", sweep), ("compare", sweep, whole)]
    if name != "environment.json":
        commands.append(("price", sweep))
        with pytest.raises(UsageError, match=name):
            load(sweep)
    else:
        del commands[2]  # nothing of it is compared
    for command in commands:
        said = typed(*command)
        assert said.code in (1, 2), command
        text = said.out + said.err
        assert "Traceback" not in text
        if command[0] != "verify":  # which says more of a run; of real ones in test_verify_outputs
            assert [line for line in text.splitlines() if name in line], (command, said)
    assert not [*sweep.rglob("executed")]


def test_the_pickle_would_be_seen(tmp_path: Path) -> None:
    pickled(tmp_path / "file")
    pickle.loads((tmp_path / "file").read_bytes())
    assert (tmp_path / "executed").exists()


@pytest.mark.slow
def test_a_link_to_a_private_file_is_not_shown(whole: Path, typed: Typed, tmp_path: Path) -> None:
    sweep = Path(shutil.copytree(whole, tmp_path / "x" / "sweep"))
    file = sweep / CELL / "summary.json"
    cell = json.loads(file.read_text()) | {"status": "failed", "error": "it failed"}
    file.write_text(json.dumps({k: v for k, v in cell.items() if k != "files"}))
    link(sweep / CELL / "error.txt")
    said = typed("report", sweep)
    assert said.code == 2 and "error.txt cannot be read: it is a link" in said.err


def test_a_cell_elsewhere_is_refused(whole: Path, tmp_path: Path) -> None:
    sweep = Path(shutil.copytree(whole, tmp_path / "x" / "sweep"))
    shutil.move(sweep / CELL, tmp_path / "cell")
    (sweep / CELL).symlink_to(tmp_path / "cell")
    with pytest.raises(UsageError, match="n10-p0.1-s0 is a link that leads out"):
        load(sweep)


def test_a_link_inside_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").symlink_to("a")
    check_file(tmp_path / "b")


@pytest.mark.parametrize("make", [fifo, device, garbage])
@pytest.mark.parametrize("command", ["run", "search", "sweep"])
def test_a_command_that_goes_on_there_refuses_it(
    make: Callable[[Path], None], command: str, typed: Typed, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    file = out / {"run": "config.toml", "search": "study.db", "sweep": "sweep.toml"}[command]
    out.mkdir()
    make(file)
    (out / "cells").mkdir() if command == "sweep" else None
    more = {"search": "--trials 1 --methods cnat", "sweep": "--temporal 1", "run": ""}[command]
    said = typed(command, "--iterations", "1", *more.split(), "--out", out)
    assert said.code == 2 and file.name in said.err.splitlines()[-1]


def test_a_table_is_read_as_before() -> None:
    """Texts, whole numbers, numbers and truths; missing ones too."""
    table = pd.DataFrame(
        {"round": [1, 2], "loss": [0.5, np.nan], "why": ["a", None], "done": [True, False]}
    )
    sink = pa.BufferOutputStream()
    table.to_parquet(sink)
    content = sink.getvalue().to_pybytes()
    pd.testing.assert_frame_equal(table_of(content), pd.read_parquet(pa.BufferReader(content)))


def test_no_text_is_a_formula_in_csv() -> None:
    texts = ["=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "-2+3", "-1.5", "sbc(0.1)", None]
    rows = [*csv.reader(csv_text(pd.DataFrame({"=label": texts})).splitlines())]
    assert [row[0][:2] if row else "" for row in rows] == [
        "'=",
        "'=",
        "'+",
        "'@",
        "'-",
        "-1",
        "sb",
        "",
    ]


@pytest.mark.slow
def test_control_characters_are_neutral_in_tables_page_and_tex(
    whole: Path, typed: Typed, tmp_path: Path
) -> None:
    sweep = Path(shutil.copytree(whole, tmp_path / "x" / "sweep"))
    odd = "mine\x1b[2J\u202egnp"
    for file in sweep.glob("cells/*/summary.json"):
        cell = json.loads(file.read_text())
        cell["told"]["form"] = cell["method"] = odd
        file.write_text(json.dumps({k: v for k, v in cell.items() if k != "files"}))
    assert typed("report", sweep).code == 0
    for name in ("report.html", "summary.tex", "summary.csv"):
        text = (sweep / name).read_text()
        body = text[text.rfind("</head>") :] if name == "report.html" else text
        assert "mine" in body, name
        assert not {"\x1b", "\u202e"} & {*body}, name
        assert "<script" not in body
    assert "\x1b" not in latex(["a"], [[odd]], [False])
