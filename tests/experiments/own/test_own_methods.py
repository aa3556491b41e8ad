"""Methods outside the package: their golden bytes, their contract, and their way into runs."""

import doctest
import pickle
import sys
import time
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest
import torch
from numba.core.dispatcher import Dispatcher
from ray import cloudpickle
from torch import Tensor

from compressors import CATALOGUE, Tensors, add_rows, compress, own_rows, parse, verify
from fedsim import RunConfig, load
from fedsim.settings.sentconfig import SentConfig
from tests.compressors.write_golden import golden_text
from tests.support.commands import Typed
from tests.support.contract import decodes_to_what_was_sent, same_seed_same_bytes
from tests.support.examples import asked_of
from tests.support.generators import updates
from tests.support.ownmethods import FOLDER, NAMES

every_name = pytest.mark.parametrize("name", NAMES)


@every_name
def test_golden_bytes(name: str) -> None:
    row = CATALOGUE[name]
    stored = (Path(__file__).parent / "golden" / f"{name}.hex").read_text()
    if row.portable:
        assert golden_text(row.example) == stored


@every_name
def test_verify_finds_nothing(name: str) -> None:
    verify(CATALOGUE[name].example)


@every_name
@asked_of(updates())
def test_a_message(name: str, update: Tensors) -> None:
    method = parse(CATALOGUE[name].example)
    packet, memory = compress(method, update, seed=7)
    decodes_to_what_was_sent(method, packet, update)
    same_seed_same_bytes(method, packet, memory, update)


@every_name
def test_examples(name: str) -> None:
    made = CATALOGUE[name].make
    (example,) = doctest.DocTestFinder(recurse=False).find(
        made, name, ModuleType(name), globs={"torch": torch}
    )
    assert doctest.DocTestRunner().run(example).failed == 0


def test_they_travel_to_other_processes_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's workers stand in another folder, and need not have the files."""
    assert list(own_rows()) == NAMES and "rows_of_a_user" not in sys.modules
    carried = cloudpickle.dumps(own_rows())
    update: dict[str, Tensor] = {"w": torch.arange(-20.0, 21.0)}
    before = [compress(parse(CATALOGUE[name].example), update)[0].payload for name in NAMES]
    for name in NAMES:
        monkeypatch.delitem(CATALOGUE, name)
    CATALOGUE.update(pickle.loads(carried))
    assert [compress(parse(CATALOGUE[n].example), update)[0].payload for n in NAMES] == before


def test_a_command_takes_them(typed: Typed, tmp_path: Path) -> None:
    for name in NAMES:
        del CATALOGUE[name]
    words = ("run", "--method", "adacomp(50)", "--iterations", "2", "--out", str(tmp_path / "out"))
    assert "unknown name 'adacomp'" in typed(*words).err
    assert typed("--rows", str(FOLDER), *words).code == 0
    (label,) = load(tmp_path / "out").runs["label"]
    assert label == "adacomp(50)"


def test_files_that_cannot_be(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("1 / 0\n")
    with pytest.raises(ValueError, match=r"mine.py: ZeroDivisionError: division by zero"):
        add_rows(str(tmp_path / "mine.py"))
    gone = str(tmp_path / "gone.py")
    said = typed("--rows", gone, "list", "methods")
    assert (said.code, said.err) == (2, f"fedsim: --rows: there is no Python file {gone}\n")


def test_a_file_may_import_what_stands_beside_it(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("share = 0.5\n")
    (tmp_path / "mine.py").write_text("from part import share\n\nassert share == 0.5\n")
    add_rows(str(tmp_path / "mine.py"))
    assert str(tmp_path) not in sys.path and "part" not in sys.modules


def test_threads_may_send_them_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba numbers a function when it is pickled first, and two threads may not do so at once."""
    sent, failed = SentConfig(RunConfig(method="sz(0.1)", temporal=1, iterations=1)), []
    numbers = Dispatcher._set_uuid

    def slowly(self: Any, number: Any) -> None:
        time.sleep(0.01)
        numbers(self, number)

    monkeypatch.setattr(Dispatcher, "_set_uuid", slowly)
    add_rows(str(FOLDER / "sz.py"))

    def send() -> None:
        try:
            cloudpickle.dumps(sent)
        except AssertionError as error:
            failed.append(error)

    threads = [Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and pickle.loads(cloudpickle.dumps(sent)) == sent
