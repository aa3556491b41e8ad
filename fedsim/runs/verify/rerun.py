"""Rounds of a run once more, and whether they record what they did: every column but measured
times, the summary, and the memory at the end."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from fedsim.federation.ledger import DIGEST_DOWN, DIGEST_MODEL, DIGEST_UP
from fedsim.federation.storage import states_of
from fedsim.ground.errors import UsageError
from fedsim.ground.files import FILES
from fedsim.ground.strangers import read_json
from fedsim.ground.threads import one_thread
from fedsim.ground.version import VERSION
from fedsim.runs import checkpoint
from fedsim.runs.callbacks import Callback
from fedsim.runs.checkpoint import Checkpoint
from fedsim.runs.environment import PACKAGE, describe_environment
from fedsim.runs.run import check_run, describe_run, grid_of, server_of, summary_of
from fedsim.runs.verify.recordedrun import RecordedRun, rows_by_round
from fedsim.runs.verify.tables import (
    Shares,
    row_differences,
    row_words,
    shape_differences,
    value_differences,
)
from fedsim.runs.verify.verdict import digest_difference
from fedsim.settings.config import RunConfig

_MACHINE = ("machine", "processor")
_PACKAGES = ("torch", "numpy", "numba")


@dataclass(frozen=True)
class Span:
    """Which rounds are run again, from 1 on; ``last`` None: up to the run's last.

    Example:
        >>> Span.parse("all"), Span.parse("5"), Span.parse("6-8")
        (Span(first=1, last=None), Span(first=1, last=5), Span(first=6, last=8))
    """

    first: int
    last: int | None

    def end(self, recorded: RecordedRun) -> int:
        """The last of them that a run has."""
        done = len(recorded.rounds)
        return min(self.last or done, done)

    @classmethod
    def parse(cls, text: str) -> "Span":
        """From ``all``, a number of rounds or ``FIRST-LAST``; ``UsageError`` for another text."""
        if text == "all":
            return cls(1, None)
        first, dash, last = text.rpartition("-")
        numbers = [first, last] if dash else ["1", last]
        if all(x.isascii() and x.isdecimal() for x in numbers):
            low, high = map(int, numbers)
            if 1 <= low <= high:
                return cls(low, high)
        raise UsageError(
            f"--rerun is {text!r}: give all, a number of rounds as 5, or the first and last as 6-8"
        )


def of_this_version(folder: Path) -> bool:
    """Whether this version of fedsim made the run, by its ``environment.json``."""
    return bool(_environment(folder).get("packages", {}).get(PACKAGE) == VERSION)


def _environment(folder: Path) -> dict[str, Any]:
    try:
        values = read_json(folder / "environment.json")
    except (OSError, ValueError):
        return {}
    if not isinstance(values, dict):
        raise UsageError("environment.json holds no table")
    return values


def elsewhere(folder: Path) -> str:
    """In what this machine is another than the one that a run names; empty where in nothing."""
    recorded, current = _environment(folder), describe_environment()
    if recorded == {}:
        return "it is not known where the run was made"
    pairs = [(name, recorded.get(name), current[name]) for name in _MACHINE]
    packages = recorded.get("packages", {})
    pairs += [(name, packages.get(name), current["packages"][name]) for name in _PACKAGES]
    return ", ".join(f"{name} {a} there, {b} here" for name, a, b in pairs if a != b)


@dataclass(frozen=True)
class Rerun:
    """The outcome of rounds that were run again."""

    span: tuple[int, int]
    begun: int  # the round of the folder's checkpoint from which they went on; 0: the run's start
    tables: Mapping[str, pd.DataFrame]  # rows of these rounds
    over: str = ""  # why the run is shorter or longer than the recorded one; empty: it is neither
    # Of a whole run, as it was recorded; empty where only a part was run again.
    summary: Mapping[str, Any] = field(default_factory=dict)
    end: Checkpoint | None = None  # the memory at the end of a whole run

    def compared(self) -> tuple[int, int]:
        """The first and the last round that were asked for and done."""
        return self.span[0], min(self.span[1], int(self.tables["rounds"]["round"].max()))

    def same_rounds(self, recorded: RecordedRun) -> dict[str, pd.DataFrame]:
        """The recorded rows of the same rounds, by table."""
        recorded_tables = {name: recorded.table(name) for name in ("rounds", "clients", "layers")}
        return {
            name: table[table["round"].between(*self.compared())] if len(table) else table
            for name, table in recorded_tables.items()
        }

    def bits_differ(self, recorded: RecordedRun) -> bool:
        """Whether a message or a model has another digest than the recorded one."""
        digests = [("rounds", (DIGEST_MODEL,)), ("clients", (DIGEST_UP, DIGEST_DOWN))]
        tables = self.same_rounds(recorded)
        return any(
            tables[name][list(columns)].to_numpy().tolist()
            != self.tables[name][list(columns)].to_numpy().tolist()
            for name, columns in digests
        )


def run_again(recorded: RecordedRun, config: RunConfig, span: Span) -> Rerun:
    """Runs rounds again, in this process.

    They begin at the last checkpoint before them that the folder holds, else at round 1. They end
    with the first model that differs, unless they were recorded on another machine. The engine is
    ``local``: all of them send the same.
    """
    local_config = replace(config, machine=replace(config.machine, engine="local"))
    states, last, digests = states_of(local_config), span.end(recorded), recorded.digests
    goes_on, over, differs = bool(elsewhere(recorded.folder)), "", False
    with one_thread():
        check_run(local_config)
        before = checkpoint.before(recorded.folder, span.first)
        server, records = server_of(local_config, states, Callback(), None, before)
        begun = records.rounds_done
        # Which round is scored last is known one round later where the run stops at its bits.
        one_more = local_config.stop_at_bits is not None
        with closing(grid_of(local_config, states)) as grid:
            server.open(grid)
            while not server.done and records.rounds_done < last + one_more:
                row = server.step()
                differs = (
                    span.first <= row["round"] <= last
                    and row[DIGEST_MODEL] != digests[row["round"]]
                )
                if differs and not goes_on:
                    break
        done = records.rounds_done
        if done < last and not differs:
            over = f"the run is over after round {done}, and {last} are recorded"
        elif recorded.done and last == len(recorded.rounds) and not (server.done and done <= last):
            over = "" if differs else f"the run goes on after round {last}, the last recorded one"
        words: dict[str, Any] = {"span": (span.first, last), "begun": begun, "over": over}
        tables = records.frames()
        frames = {
            name: table[table["round"].between(span.first, min(last, done))]
            for name, table in tables.items()
        }
        if recorded.done and server.done and done == len(recorded.rounds) and not over:
            description = describe_run(config, server.trainer)
            summary = summary_of(description, records, server, tables)
            words |= {"summary": summary, "end": records.memory(server)}
        return Rerun(tables=frames, **words)


def rerun_differences(recorded: RecordedRun, again: Rerun, shares: Shares) -> Iterator[str]:
    """The differences between rounds that were run again and the records, the first round first.

    ``shares``: how far numbers may be apart, and whether single bits are compared.
    """
    (first, last), tables = again.compared(), again.same_rounds(recorded)
    clients = rows_by_round(again.tables["clients"])
    rounds = again.tables["rounds"]
    models = dict(zip(rounds["round"], rounds[DIGEST_MODEL], strict=True))
    for number in range(first, last + 1) if shares.bits else ():
        yield from client_differences(number, recorded.clients_in(number), clients.get(number, []))
        if models[number] != (expected := recorded.digests.get(number, "")):
            yield digest_difference(f"round {number}: model", expected, models[number])
            break  # and so does every one after it
    yield from frame_differences(tables, again.tables, shares, _AGAIN)
    if again.over:
        yield again.over
    if again.summary:
        summary = {name: x for name, x in recorded.summary.items() if name != FILES}
        yield from value_differences("summary.json", summary, again.summary, shares, _AGAIN)
    if again.end is not None and shares.bits and not shares.numbers:
        stored = checkpoint.end(recorded.folder)
        yield from end_differences(stored, again.end) if stored is not None else ()


_AGAIN = "when run again"
_DIGESTS = [DIGEST_UP, DIGEST_DOWN, DIGEST_MODEL]


def frame_differences(
    recorded: Mapping[str, pd.DataFrame],
    repeated: Mapping[str, pd.DataFrame],
    shares: Shares,
    where: str,
) -> Iterator[str]:
    """Where tables differ from the same made again, except digests, which are compared by round."""
    for name, table in recorded.items():
        table = table.drop(columns=_DIGESTS, errors="ignore")
        frame = repeated.get(name, pd.DataFrame()).drop(columns=_DIGESTS, errors="ignore")
        wrong = [*shape_differences(f"{name}.parquet", table, frame, where)]
        yield from wrong or row_differences(table, frame, shares, where)


def end_differences(stored: Checkpoint, computed: Checkpoint) -> Iterator[str]:
    """The differences between the memory at a run's end and the folder's, in ``final``.

    Messages that are under way and the name of the channel are left out: they hold the times and
    the random names of the process that made them.
    """
    parts = {"the server": (stored.server, computed.server)} | {
        f"client {client}": (state, computed.clients.get(client, {}))
        for client, state in stored.clients.items()
    }
    for whose, (one, other) in parts.items():
        of_process = {name for name in one if name.startswith("under-way/") or "channel" in name}
        if wrong := sorted(
            name
            for name in {*one} - of_process
            if name not in other
            or one[name].dtype != other[name].dtype
            or not torch.equal(one[name].cpu(), other[name].cpu())
        ):
            yield f"final: {wrong[0]} of {whose} is another one {_AGAIN}"
            return


def client_differences(
    number: int, recorded: list[dict[str, Any]], repeated: list[dict[str, Any]]
) -> Iterator[str]:
    """The differences between a round's clients, or the digests of their messages."""
    one, other = ([row["client"] for row in rows] for rows in (recorded, repeated))
    if one != other:
        yield f"round {number}: clients {one} are recorded, and {other} were found"
        return
    for row, again in zip(recorded, repeated, strict=True):
        for column, what in ((DIGEST_DOWN, "payload sent to it"), (DIGEST_UP, "payload")):
            if row[column] != again[column]:
                yield digest_difference(f"{row_words(row)}: {what}", row[column], again[column])
