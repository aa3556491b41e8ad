"""A run that is stepped by hand, a round at a time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fedsim.engines.flowerlog import flower_quiet
from fedsim.federation import storage
from fedsim.ground.errors import UsageError, expect
from fedsim.ground.threads import one_thread
from fedsim.runs.callbacks import Callback, RoundRow, Several
from fedsim.runs.checkpoint import Checkpoint
from fedsim.runs.folder import setting_differences
from fedsim.runs.run import (
    broken_off,
    check_kept,
    check_run,
    describe_run,
    grid_of,
    server_of,
    summary_of,
)
from fedsim.settings import contents
from fedsim.settings.config import RunConfig

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd


@dataclass(frozen=True)
class RunState:
    """Everything that a run needs to continue.

    Attributes:
        config: the run.
        memory: of server and clients, and the rows so far.
    """

    config: RunConfig
    memory: Checkpoint


class Federation:
    """A run on the local engine, in memory, that you step one round at a time.

    The last round is that of ``run``, and so is every number. A federation may be left at any
    round; as a context, or by ``close``, its processes end.

    Args:
        config: what is run.
        state: what ``state()`` of a federation with the same settings has returned; the run goes
            on from there, bit for bit. None: from the start.
        callbacks: as ``run`` takes them.

    Raises:
        UsageError: as ``run`` without a folder; and for another engine than ``local``, or a state
            of other settings.

    Example:
        >>> config = RunConfig(method="sbc(0.05)", temporal=5, iterations=20)
        >>> with Federation(config) as federation:
        ...     while not federation.done:
        ...         row = federation.round()
        >>> row["round"], row["iteration"], len(federation.rounds)
        (4, 20, 4)
    """

    def __init__(
        self,
        config: RunConfig,
        state: RunState | None = None,
        callbacks: Iterable[Callback | Callable[[RoundRow], Any]] = (),
    ) -> None:
        expect(config, RunConfig, "Federation()")
        if config.machine.engine != "local":
            raise UsageError(
                f"--engine is {config.machine.engine!r}: a federation is stepped on the engine "
                "local, whose clients answer in this process"
            )
        check_kept(config)
        if state is not None:
            expect(state, RunState, "Federation(state=...)")
            differ = setting_differences(state.config, config).items()
            if remarks := [
                *(f"{n} {a!r} there, {b!r} here" for n, (a, b) in differ),
                *contents.differing(state.config.content, config.content),
            ]:
                changed = "; ".join(remarks)
                raise UsageError(f"state is of a run of other settings ({changed})")
        self.config, self._follower, self._cut = config, Several(callbacks), False
        states = storage.states_of(config)
        with one_thread(), flower_quiet():
            check_run(config)
            storage.check_storage(config, None)
            before = None if state is None else state.memory.copied()
            self._server, self._records = server_of(config, states, self._follower, None, before)
            grid = grid_of(config, states)
            self._end = weakref.finalize(self, grid.close)
            self._description = describe_run(config, self._server.trainer)
            self._follower.begin(self._description, self._records.follower_rows)
            self._server.open(grid)

    @property
    def done(self) -> bool:
        """Whether the last round is done."""
        return self._server.done

    def round(self) -> dict[str, Any]:
        """Does the next round; returns its row, as ``rounds.parquet`` has it.

        Raises ``UsageError`` where the run is done, or Ctrl-C has cut the round before short, and
        ``RunFailed`` as ``run``.
        """
        before = self._records.rounds_done
        if self._cut:
            raise UsageError(
                f"round(): round {before + 1} was interrupted, and some of its clients may have "
                "trained: begin a new federation, or go on from a state() of before"
            )
        if self.done:
            raise UsageError(f"round(): the run is done after {self._records.rounds_done} rounds")
        try:
            with one_thread(), flower_quiet():
                row = self._server.step()
        except Exception as error:
            self._follower.end(broken_off(self._description, self._records, self._server, error))
            raise
        except BaseException:
            self._cut = self._records.rounds_done == before  # else a callback raised it
            raise
        if self.done:
            self._follower.end(self.summary)
        return row

    @property
    def model(self) -> dict[str, Tensor]:
        """A copy of every weight and buffer of the server's model, by name, on the CPU."""
        return {name: x.clone() for name, x in self._server.model.items()}

    @property
    def rounds(self) -> pd.DataFrame:
        """A row per round so far."""
        return self._records.frames()["rounds"]

    @property
    def clients(self) -> pd.DataFrame:
        """A row per round so far and client that was asked."""
        return self._records.frames()["clients"]

    @property
    def summary(self) -> dict[str, Any]:
        """What the rounds so far come to, as ``summary.json`` has it: ``status`` is ``done`` where
        they are all.
        """
        tables = self._records.frames()
        summary = summary_of(self._description, self._records, self._server, tables)
        return summary | {"status": "done" if self.done else "running"}

    def state(self) -> RunState:
        """Everything from which the run goes on: a value that does not change as the run does."""
        return RunState(self.config, self._records.memory(self._server).copied())

    def close(self) -> None:
        """Ends the processes that train clients; the rounds so far stay."""
        self._end()

    def __enter__(self) -> Federation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
