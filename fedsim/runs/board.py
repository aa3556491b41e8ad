"""Messages between Ray tasks and the process that started them while runs go on."""

import asyncio
import secrets
from typing import Any, NamedTuple

from fedsim.runs.archive import Archive


class Pinned(NamedTuple):
    """A round's row of a run, and files where the run's machine does not see its folder."""

    key: str
    name: str
    row: dict[str, Any]
    archive: Archive | None


class Board:
    """A Ray actor: runs pin their rows, and wait there until the driver has answered.

    A run that did not wait would be told too late that it is to end, or never: a round may take a
    millisecond.
    """

    def __init__(self) -> None:
        self._rows: list[Pinned] = []
        self._answers: dict[str, asyncio.Future[str | None]] = {}
        self._some = asyncio.Event()

    async def pin(self, name: str, row: dict[str, Any], archive: Archive | None) -> str | None:
        """Keeps a row and files; returns the driver's answer: why its run is to end, or None."""
        key = secrets.token_hex(8)  # a board that Ray has started again knows its own rows only
        self._answers[key] = asyncio.get_running_loop().create_future()
        self._rows.append(Pinned(key, name, row, archive))
        self._some.set()
        return await self._answers[key]

    async def take(self) -> list[Pinned]:
        """All rows that came since the last call, once there is one."""
        await self._some.wait()
        self._some.clear()
        rows, self._rows = self._rows, []
        return rows

    async def answer(self, answers: dict[str, str | None]) -> None:
        """Lets the runs of these rows go on, or end."""
        for key, reason in answers.items():
            if (waiting := self._answers.pop(key, None)) is not None:
                waiting.set_result(reason)
