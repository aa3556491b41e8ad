"""A run leaves torch's number of threads as it found it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fedsim import RunFailed, run
from fedsim.federation.trainer import Trainer
from tests.support.runs import small


@pytest.fixture
def threads() -> Iterator[int]:
    """Another number than a run works with."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


@pytest.mark.parametrize("workers", [1, 2])
def test_threads_are_as_many_as_before(threads: int, workers: int, tmp_path: Path) -> None:
    seen: list[int] = []
    watch = [lambda row: seen.append(torch.get_num_threads())]
    run(small(workers=workers), tmp_path, callbacks=watch)
    assert seen == [1] * 4
    assert torch.get_num_threads() == threads
    run(small(workers=workers), tmp_path)  # which is done already
    assert torch.get_num_threads() == threads


def test_after_a_run_that_fails_too(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "train", lambda *rest: 1 / 0)
    with pytest.raises(RunFailed):
        run(small(), tmp_path)
    assert torch.get_num_threads() == threads
