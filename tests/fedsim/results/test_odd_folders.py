"""Folders that somebody edited, cut, or wrote with another version: a line that names the file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedsim.commands.cli import BAD_USAGE, DONE
from fedsim.ground.errors import UsageError
from fedsim.results.schema import clients_of
from fedsim.show import plot
from tests.support.cases import cases
from tests.support.commands import Typed
from tests.support.sweepmaker import make_sweep

CELL = Path("cells") / "n10-p0.1-s0"
Change = Callable[[Path], object]


def cell(**changes: Any) -> Change:
    """The summary of a cell with other values."""

    def change(sweep: Path) -> None:
        file = sweep / CELL / "summary.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def without(*names: str) -> Change:
    """The summary of a cell without these."""

    def change(sweep: Path) -> None:
        file = sweep / CELL / "summary.json"
        kept = {k: v for k, v in json.loads(file.read_text()).items() if k not in names}
        file.write_text(json.dumps(kept))

    return change


def content(name: str, data: str | bytes) -> Change:
    """A file of a cell with this content."""
    return lambda sweep: (sweep / CELL / name).write_bytes(
        data if isinstance(data, bytes) else data.encode()
    )


def gone(name: str) -> Change:
    return lambda sweep: (sweep / CELL / name).unlink()


def folder(name: str) -> Change:
    """A folder where there was a file of a cell."""

    def change(sweep: Path) -> None:
        (sweep / CELL / name).unlink(missing_ok=True)
        (sweep / CELL / name).mkdir()

    return change


def table(name: str, edit: Callable[[pd.DataFrame], pd.DataFrame]) -> Change:
    """A table of a cell, edited."""

    def change(sweep: Path) -> None:
        file = sweep / CELL / name
        edit(pd.read_parquet(file)).to_parquet(file)

    return change


def rounds(**columns: Any) -> Change:
    return table("rounds.parquet", lambda frame: frame.assign(**columns))


def failed(**changes: Any) -> Change:
    return cell(status="failed", error="RunFailed: a weight is not finite", **changes)


def both(*changes: Change) -> Change:
    return lambda sweep: [change(sweep) for change in changes]


REFUSED: dict[str, tuple[Change, str]] = {
    "summary empty": (content("summary.json", ""), "summary.json"),
    "summary cut": (content("summary.json", '{"task": "dig'), "summary.json"),
    "summary a list": (content("summary.json", "[1]"), "summary.json"),
    "summary null": (content("summary.json", "null"), "summary.json"),
    "summary not UTF-8": (content("summary.json", b"\xff\xfe"), "summary.json"),
    "summary a folder": (folder("summary.json"), "summary.json"),
    "no method": (without("method"), "method"),
    "no metric name": (without("metric_name"), "metric_name"),
    "no higher is better": (without("higher_is_better"), "higher_is_better"),
    "task a number": (cell(task=1), "task"),
    "task a list": (cell(task=["digits"]), "task"),
    "method a number": (cell(method=3), "method"),
    "n a text": (cell(temporal="many"), "temporal"),
    "n 0": (cell(temporal=0), "temporal"),
    "n 2.5": (cell(temporal=2.5), "temporal"),
    "n true": (cell(temporal=True), "temporal"),
    "p a text": (cell(gradient="0.1"), "gradient"),
    "p 0": (cell(gradient=0), "gradient"),
    "p NaN": (cell(gradient=float("nan")), "gradient"),
    "p infinite": (cell(gradient=float("inf")), "gradient"),
    "seed a text": (cell(seed="one"), "seed"),
    "seed 1e30": (cell(seed=10**30), "seed"),
    "seed null": (cell(seed=None), "it lacks seed"),
    "loss a text": (cell(loss="high"), "loss is 'high' and not a number"),
    "clients 0": (cell(clients=0), "clients"),
    "bits a list": (cell(up_wire_bits=[1]), "up_wire_bits"),
    "bits negative": (cell(up_content_bits=-1.0), "up_content_bits"),
    "metric a text": (cell(metric="high"), "metric"),
    "metric name a number": (cell(metric_name=3), "metric_name"),
    "higher is better a text": (cell(higher_is_better="yes"), "higher_is_better"),
    "status unknown": (cell(status="odd"), "status"),
    "status a number": (cell(status=5), "status"),
    "status null": (cell(status=None), "it lacks status"),
    "metric null": (cell(metric_name=None), "it lacks metric_name"),
    "error a number": (failed() and cell(status="failed", error=5), "error"),
    "data source a number": (cell(data_source=3), "data_source"),
    "downlink a number": (cell(downlink=3), "downlink"),
    "settings a list": (cell(settings=[1]), "settings"),
    "settings a text": (cell(settings="x"), "settings"),
    "told a list": (cell(told=["x"]), "told"),
    "told with a number": (cell(told={"form": 3, "whole": "", "value": False}), "told"),
    "told without a form": (cell(told={"whole": ""}), "told"),
    "files a list": (cell(files=["x"]), "summary.json"),
    "rounds missing": (gone("rounds.parquet"), "rounds.parquet"),
    "rounds a folder": (folder("rounds.parquet"), "rounds.parquet"),
    "rounds of text": (content("rounds.parquet", "round,metric\n1,2\n"), "rounds.parquet"),
    "rounds without rows": (table("rounds.parquet", lambda t: t.iloc[:0]), "rounds.parquet"),
    "rounds without bits": (
        table("rounds.parquet", lambda t: t.drop(columns="up_wire_bits")),
        "up_wire_bits",
    ),
    "rounds' metric of texts": (rounds(metric="high"), "metric"),
    "rounds' bits of texts": (rounds(up_wire_bits="many"), "up_wire_bits"),
    "rounds' clients of texts": (rounds(clients="x"), "clients"),
    "rounds numbered by texts": (rounds(round="x"), "round"),
    "layers a folder": (folder("layers.parquet"), "layers.parquet"),
    "layers sent of texts": (table("layers.parquet", lambda t: t.assign(sent="all")), "sent"),
    "layers without tensors": (
        table("layers.parquet", lambda t: t.drop(columns="tensor")),
        "tensor",
    ),
    "config with a number for a label": (
        content("config.toml", 'task = "digits"\nlabel = 3\n'),
        "label",
    ),
    "config with a number for a method": (content("config.toml", "method = 3\n"), "method"),
}
"""By what is odd: how it is made, and what the line names beside the folder."""

READ: dict[str, Change] = {
    "several at once": both(
        cell(settings={"lr": 0.1, "sorcery": [1, {"a": 2}]}),
        gone("config.toml"),
        rounds(metric=lambda t: t["metric"].where(t.index == t.index[-1]), sorcery="x"),
        gone("layers.parquet"),
        lambda sweep: (sweep / "cells" / "empty").mkdir(),
    ),
    "a key in settings that is not known yet": cell(settings={"lr": 0.1, "sorcery": [1, {"a": 2}]}),
    "a key in told that is not known yet": cell(
        told={"form": "sbc", "whole": "sbc(1)", "value": False, "sorcery": 1}
    ),
    "a key of the summary that is not known yet": cell(sorcery={"a": [1]}),
    "a key in config that is not known yet": content("config.toml", "sorcery = [1]\n"),
    "a column that is not known yet": rounds(sorcery="x"),
    "settings null": cell(settings=None),
    "metric NaN": cell(metric=float("nan")),
    "loss null": cell(loss=None),
    "no bits": cell(up_wire_bits=None),
    "config missing": gone("config.toml"),
    "config a folder": folder("config.toml"),
    "config not TOML": content("config.toml", "task ="),
    "config with lists": content(
        "config.toml", 'task = "digits"\ntraining.lr = [0.1]\nclients = {a = 1}\n'
    ),
    "config not UTF-8": content("config.toml", b"\xff\xfe"),
    "environment missing": gone("environment.json"),
    "environment a list": content("environment.json", "[1, 2]"),
    "environment not UTF-8": content("environment.json", b"\xff"),
    "layers missing": gone("layers.parquet"),
    "layers without rows": table("layers.parquet", lambda t: t.iloc[:0]),
    "metric only at the end": rounds(metric=lambda t: t["metric"].where(t.index == t.index[-1])),
    "a round of no clients": rounds(clients=lambda t: t["clients"].where(t.index != 2, 0)),
    "no evaluation": rounds(metric=np.nan),
    "failed, with a folder for its traceback": both(failed(metric=None), folder("error.txt")),
    "failed, with bytes for its traceback": both(failed(), content("error.txt", b"\xff\x00")),
    "failed, without rounds": both(failed(), gone("rounds.parquet")),
    "a file among the cells": lambda sweep: (sweep / "cells" / "file").write_text("x"),
    "an empty folder among the cells": lambda sweep: (sweep / "cells" / "empty").mkdir(),
    "a link to nowhere among the cells": lambda sweep: (sweep / "cells" / "l").symlink_to("no"),
    "sweep.toml of bytes": lambda sweep: (sweep / "sweep.toml").write_bytes(b"\xff"),
    "runs.toml with a number for cells": lambda sweep: (sweep / "runs.toml").write_text("cell = 3"),
    "runs.toml with a list of numbers": lambda sweep: (sweep / "runs.toml").write_text("cell=[3]"),
}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    make_sweep(tmp_path / "sweep", (1, 10), (0.1,))
    return tmp_path / "sweep"


@pytest.mark.parametrize(("change", "named"), REFUSED.values(), ids=REFUSED)
def test_an_odd_folder_is_refused_in_words_that_name_it(
    change: Change, named: str, sweep: Path, typed: Typed
) -> None:
    change(sweep)
    said = typed("report", sweep)
    assert said.code == BAD_USAGE, said.err or said.out
    first = said.err.splitlines()[0]
    assert str(sweep / CELL) in first and named in first and "Traceback" not in said.err


@pytest.mark.parametrize(
    "change",
    cases(
        READ,
        quick=("several at once", "failed, without rounds"),
    ),
)
def test_what_does_not_matter_or_is_newer_is_read(
    change: Change, sweep: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "save", lambda _, file: file.touch())  # pictures take the time
    change(sweep)
    said = typed("report", sweep)
    assert (said.code, said.err) == (DONE, "")
    assert (sweep / "report.html").exists()


def test_a_row_per_client_is_read_as_carefully(sweep: Path) -> None:
    """A price and the timelines of a page are made of it."""
    file = sweep / CELL / "clients.parquet"
    for change, why in (
        (lambda _: None, "it is missing"),
        (content(file.name, "PAR1"), ""),
        (lambda _: pd.DataFrame({"round": [1]}).to_parquet(file), "it lacks the columns client"),
        (lambda _: pd.DataFrame({"round": [1], "client": ["one"]}).to_parquet(file), "'one'"),
    ):
        change(sweep)
        with pytest.raises(UsageError, match=f"{file} cannot be read: .*{why}"):
            clients_of(file.parent)
