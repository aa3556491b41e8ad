"""Runs the apps of ``examples`` with and without compression, and writes what travelled.

``PYTHONPATH=. python docs/make_quickstart.py`` runs each with two nodes in process, some minutes in
all, and writes ``docs/quickstart.csv`` and the table in ``docs/flower.md``. It needs transformers.
The bytes are those of whole messages, as Flower sends them (``strategies/channel/framing.py``).
"""

import csv
import io
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedsim.engines.local import LocalGrid
from strategies import Compressed, answer_partition
from strategies.channel.framing import Travel, Wire

EXAMPLES = Path(__file__).parents[1] / "examples"
CSV, PAGE = Path(__file__).with_name("quickstart.csv"), Path(__file__).with_name("flower.md")
APPS = {
    "quickstart": "quickstart",
    "batchnorm": "batchnorm",
    "sklearn": "sklearnexample",
    "huggingface": "hfexample",
}
"""Folders of ``examples``, each of which has a twin with ``-sbc`` behind it, and their packages."""

_FEW = {"nodes": 10, "rounds": 30, "clients": 10, "cohort": 3}
OTHERWISE: dict[str, tuple[str, dict[str, Any]]] = {
    "`sklearn` without `compress_evaluation`": ("sklearn", {"compress_evaluation": False}),
    "`quickstart`, 30 rounds with 3 of 10 nodes": ("quickstart", _FEW),
    "`quickstart`, the same with `catch_up=True`": ("quickstart", {**_FEW, "catch_up": True}),
}
"""Rows of twins with other settings."""

HEAD = ("app", "bytes up", "bytes down", "accuracy", "`-sbc`: bytes up", "bytes down", "accuracy")
_BETWEEN = re.compile(r"(<!-- quickstart -->\n).*?(<!-- end of quickstart -->)", re.DOTALL)


class Counting(LocalGrid):
    """A grid that books every message, whole."""

    def __init__(self, app: ClientApp, clients: int) -> None:
        super().__init__(app, clients)
        self.wire = Wire()

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterator[Message]:
        """All replies."""
        asked = self.wire.evaluating(messages)
        yield from self.wire.evaluated(super().send_and_receive(asked, timeout=timeout))


@contextmanager
def imported(folder: str, package: str) -> Iterator[tuple[ClientApp, object]]:
    """The two halves of an app; its twin has the same names."""
    sys.path.insert(0, str(EXAMPLES / folder))
    try:
        yield import_module(f"{package}.client").app, import_module(f"{package}.server").app
    finally:
        sys.path.remove(str(EXAMPLES / folder))
        for name in [name for name in sys.modules if name.split(".")[0] == package]:
            del sys.modules[name]


def measured(
    folder: str, package: str, nodes: int = 2, rounds: int = 10, **instead: Any
) -> tuple[Travel, str]:
    """What travelled, and the accuracy that the app tells.

    ``instead``: settings that ``Compressed`` gets whatever the app says.
    """
    with imported(folder, package) as (client, server), redirect_stdout(io.StringIO()) as told:
        if instead:
            changed = partial(_compressed, instead)
            sys.modules[f"{package}.server"].Compressed = changed  # type: ignore[attr-defined]
            answer_partition(client)
        logging.getLogger("flwr").setLevel(logging.ERROR)
        grid = Counting(client, nodes)
        server(grid=grid, context=Context(1, 0, {}, RecordDict(), {"rounds": rounds}))
        grid.close()
    return grid.wire.scored(), told.getvalue().split()[-1]


def _compressed(instead: dict[str, Any], *given: Any, **named: Any) -> Compressed:
    return Compressed(*given, **{**named, **instead})


def row(folder: str) -> tuple[str, ...]:
    """A row of the table: the app, and its twin."""
    cells = [f"`{folder}`"]
    for name in (folder, f"{folder}-sbc"):
        travel, score = measured(name, APPS[folder])
        cells += [f"{travel.up:,}", f"{travel.down:,}", score]
    return tuple(cells)


def page() -> str:
    """The page with the table of the CSV in it."""
    with CSV.open(encoding="utf-8") as file:
        lines = [f"| {' | '.join(row)} |" for row in csv.reader(file)]
    table = "\n".join([lines[0], "| --- |" + " --: |" * 6, *lines[1:]])
    text = PAGE.read_text(encoding="utf-8")
    return _BETWEEN.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


if __name__ == "__main__":
    rows = [row(folder) for folder in APPS]
    for told, (folder, settings) in OTHERWISE.items():
        travel, score = measured(f"{folder}-sbc", APPS[folder], **settings)
        rows += [(told, "", "", "", f"{travel.up:,}", f"{travel.down:,}", score)]
    with CSV.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *rows])
    PAGE.write_text(page(), encoding="utf-8")
