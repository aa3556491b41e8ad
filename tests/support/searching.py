"""A task on which a search's trials take some milliseconds, and such searches."""

import os
import signal
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import SGD

from fedsim import Data, RunConfig, Task
from fedsim.search.page import SearchResult
from fedsim.search.search import search
from fedsim.tasks.base import correct, cross_entropy

_X = torch.randn(160, 6, generator=torch.Generator().manual_seed(3))
_DATA = Data(_X[:120], _X[:120, :3].argmax(1), _X[120:], _X[120:, :3].argmax(1), "made up")

TINY = Task(
    name="tiny_search",
    build=lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)),
    load=lambda folder, download: _DATA,
    optimizer=lambda p: SGD(p, lr=0.3, momentum=0.5),
    loss=cross_entropy,
    metric=correct,
    batch_size=8,
    iterations=16,
    clients=2,
)


def searched(out: Path, **how: Any) -> SearchResult:
    """A search of the tiny task that says nothing."""
    given = {"budget": "20kbit", "methods": "sbc,stc", "seeds": 2, "trials": 8} | how
    given.setdefault("say", lambda line: None)
    return search(given.pop("base", RunConfig(task=TINY, method="raw", temporal=1)), out, **given)


def told(found: SearchResult) -> list[tuple[Any, ...]]:
    """What two equal searches share: every trial, every finalist."""
    trials = found.trials.drop(columns="why").round(12).astype(str)
    finals = [(f.trial, f.params, f.validated, f.held, f.tie) for f in found.finalists]
    return [*trials.itertuples(index=False, name=None), *finals]


def killed(out: Path, line: int, trials: int) -> None:
    """A search that kills its process when it is about to say a given line."""
    lines: list[str] = []

    def say(text: str) -> None:
        lines.append(text)
        if len(lines) == line:
            os.kill(os.getpid(), signal.SIGKILL)

    searched(out, trials=trials, seeds=1, say=say)
