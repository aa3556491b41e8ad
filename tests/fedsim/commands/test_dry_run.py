"""``--dry-run`` says what runs will take, and writes nothing."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from compressors import State, decompress
from fedsim import RunConfig, run
from fedsim.runs.estimates import Trials
from tests.support.commands import SMALL, Typed, document


def test_messages_are_as_long_as_in_the_run(tmp_path: Path) -> None:
    """Raw messages have one length; those of sbc differ by a few bits. One of two clients."""
    for method, within in (("raw", 0.0), ("sbc(0.1)", 0.03)):
        config = RunConfig.of(method=method, temporal=5, iterations=20, cohort=2)
        made = Trials().of(config)
        summary = run(config, tmp_path / method).summary
        assert made.up_bits == pytest.approx(summary["up_wire_bits"], rel=within)
        assert (made.rounds, made.messages) == (4, 8)
        assert made.seconds > 0


def test_relayed_messages_and_local_epochs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three messages of the others in every round; 360 samples in batches of 32 are 11.

    Of this clock three iterations take a second, and so does a message, and an evaluation.
    """
    monkeypatch.setattr("fedsim.runs.estimates.perf_counter", count().__next__)
    more: dict[str, Any] = {"method": "raw", "evaluate_every": 3, "workers": 2}
    relayed = Trials().of(RunConfig.of(downlink="relay", rounds=3, local_epochs=2, **more))
    assert relayed.down_bits == 3 * relayed.up_bits
    assert relayed.seconds == pytest.approx(12 * (2 * 11 / 3 + 1) / 2 + 1)
    more |= {"cohort": 2, "ask": 4, "network": "4g, compute=20ms"}  # all four train
    made = Trials().of(RunConfig.of(temporal=6, iterations=18, **more))
    assert made.seconds == pytest.approx(12 * (6 / 3 + 2) / 2 + 1)


def test_kernels_that_the_first_message_compiles_are_not_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A decoder that takes 1000 s at first: the clock goes on with each call of it."""
    calls = count()
    now = [0.0]

    def slow_at_first(*given: Any) -> State:
        now[0] += 1000.0 if next(calls) == 0 else 1.0
        return decompress(*given)

    monkeypatch.setattr("fedsim.runs.estimates.perf_counter", lambda: now[0])
    monkeypatch.setattr("fedsim.runs.estimates.decompress", slow_at_first)
    config = RunConfig.of(method="raw", downlink="relay", iterations=2, temporal=1, clients=4)
    assert Trials().of(config).seconds == 2 * 4 * 1.0


def test_nothing_is_written(typed: Typed) -> None:
    said = typed("sweep", *SMALL, "--temporal", "5,10", "--dry-run", "--json")
    assert said.code == 0
    told = document(said.out)
    assert [one["rounds"] for one in told["runs"]][-2:] == [4, 2] and told["seconds"] > 0
    said = typed("run", "--method", "raw", "--iterations", "20", "--dry-run")
    assert said.code == 0 and "1 run: about" in said.out
    assert list(Path.cwd().iterdir()) == []
