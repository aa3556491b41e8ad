"""Secure aggregation in runs: bits, seconds and joules of its messages, and what ends a round."""

from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, RunFailed, UsageError, run
from fedsim.network.spec import parse
from fedsim.results.load import load_results
from fedsim.settings.strategies import check_deployed
from fedsim.show.times import priced
from tests.support.runs import small

METHOD = "secagg(12, 0.25, 15)"
ENTRIES = 21386


def trained(folder: Path, strategy: Any, **settings: Any) -> Any:
    config = small(method=METHOD, strategy=strategy, iterations=10, **settings)
    return run(config, folder, progress=False)


def test_bits_seconds_and_joules_of_three_clients(tmp_path: Path) -> None:
    """336 bytes of keys and shares up, 385 down (tests/strategies/test_secagg.py)."""
    network = "up=1Mbit, down=2Mbit, latency=10ms, compute=20ms, energy_up=2J/bit, "
    rounds = trained(tmp_path, "secagg", clients=3, network=network + "energy_down=1J/bit").rounds
    payload = 8 * -(-(24 + 1 + 15 * ENTRIES) // 8)
    assert rounds["up_key_bits"].tolist() == 2 * [3 * 8 * 336]
    assert rounds["down_key_bits"].tolist() == 2 * [3 * 8 * 385]
    assert rounds["up_wire_bits"].tolist() == 2 * [3 * (payload + 8 * 336)]
    assert rounds["up_sent"].tolist() == 2 * [3 * ENTRIES]
    model = 32 * ENTRIES + 24
    assert rounds["down_wire_bits"].tolist() == [3 * 8 * 385, 3 * (8 * 385 + model)]
    joules = 2 * rounds["up_wire_bits"] + rounds["down_wire_bits"]
    assert rounds["energy_joules"].tolist() == pytest.approx(joules.tolist())
    keys, shares = 0.02 + 512 / 1e6, 0.02 + 1664 / 2e6 + 1408 / 1e6
    masked = 0.02 + 1408 / 2e6 + 5 * 0.02 + payload / 1e6
    answers = 0.02 + 8 / 2e6 + 768 / 1e6
    seconds = keys + shares + masked + answers
    assert rounds["sim_seconds"].tolist() == pytest.approx([seconds, seconds + model / 2e6])
    with pytest.raises(UsageError, match="no price"):
        priced(load_results(tmp_path), parse("4g, compute=20ms"))


def test_a_round_below_the_threshold_fails_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"round \d.*threshold 0.8"):
        trained(tmp_path, "secagg(0.8)", dropout="after=0.5")


def test_with_over_selection_the_modulus_holds_the_sum_of_the_cohort(tmp_path: Path) -> None:
    """Twice 4,094 is below 2^13, and three times is not; the keys are those of four clients."""
    settings = {"clients": 4, "cohort": 2, "ask": 4, "network": "4g, compute=lognormal(20ms, 1)"}
    config = small(method="secagg(12, 0.25, 13)", strategy="secagg(0.25)", iterations=5, **settings)
    rounds = run(config, tmp_path, progress=False).rounds
    assert rounds["clients"].tolist() == [2]
    assert rounds["down_key_bits"].tolist() == [8 * (4 * (4 + 68 * 4 + 88 * 3) + 2)]


def test_a_weight_that_does_not_hold_a_clients_samples_is_refused(tmp_path: Path) -> None:
    """1,437 samples of four clients: 359 or 360."""
    settings = {"strategy": "secagg", "weighting": "samples", "clients": 4}
    with pytest.raises(UsageError, match=r"client 0 .* 360 samples.* 8 bits holds 255.*weight=9"):
        run(RunConfig.of(method="secagg(8, 0.1, weight=8)", **settings), tmp_path, progress=False)


def test_no_deployment() -> None:
    with pytest.raises(UsageError, match="secagg"):
        check_deployed("secagg(0.6)")
