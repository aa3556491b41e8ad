"""Secure aggregation trains the digits: the models of plain fixed point, and every bit booked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from compressors import Compressor, State, Tensors
from compressors.bits import BitReader
from compressors.whole.masked_integers import MaskedIntegers
from fedsim import RunConfig, RunFailed, UsageError, run
from fedsim.network.spec import parse
from fedsim.results.load import load_results
from fedsim.settings.strategies import check_deployed
from fedsim.show.times import priced
from strategies import Client, RoundInfo, SecAgg, Uplink
from strategies.algorithms.base import PLAIN
from strategies.algorithms.secagg import MASKED
from tests.support.runs import small

METHOD = "secagg(12, 0.25, 15)"
ENTRIES = 21386


@dataclass(frozen=True)
class Integers(MaskedIntegers):
    """The integers of a message, masked or not."""

    codec_id: ClassVar[str] = MaskedIntegers.codec_id  # the same messages

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, torch.Tensor]:
        return {MASKED: torch.from_numpy(self.read_integers(bits, template).integers)}


@dataclass(frozen=True)
class Unmasked(SecAgg):
    """The mean of the same integers without masks, summed by Python.

    Source: tests.
    """

    @property
    def client(self) -> Client:
        return PLAIN

    def sides(self, seed: int) -> tuple[()]:
        return ()

    def reads(self, uplink: Compressor) -> Compressor:
        assert isinstance(uplink, MaskedIntegers)
        return Integers(uplink.bits, uplink.clip, uplink.modulus)

    def step(
        self, uplinks: Mapping[int, Uplink], state: State, model: Tensors, info: RoundInfo
    ) -> tuple[Tensors | None, State]:
        assert isinstance(info.uplink, MaskedIntegers)
        columns = zip(*(up.update[MASKED].tolist() for up in uplinks.values()), strict=True)
        total = np.array([sum(x - 2**15 * (x >= 2**14) for x in column) for column in columns])
        flat = torch.from_numpy((total * info.uplink.step / len(uplinks)).astype(np.float32))
        parts = flat.split([x.numel() for x in model.values()])
        named = zip(model.items(), parts, strict=True)
        return {name: part.view(x.shape) for (name, x), part in named}, state


def trained(folder: Path, strategy: Any, **settings: Any) -> Any:
    config = small(method=METHOD, strategy=strategy, iterations=10, **settings)
    return run(config, folder, progress=False)


@pytest.mark.parametrize(
    "settings",
    [{}, {"dropout": "before=0.2, after=0.2", "clients": 6, "cohort": 5, "downlink": "sbc(0.1)"}],
)
def test_models_are_those_of_plain_fixed_point(tmp_path: Path, settings: dict[str, Any]) -> None:
    secure = trained(tmp_path / "secure", "secagg(0.2)", **settings).rounds
    plain = trained(tmp_path / "plain", Unmasked(), **settings).rounds
    for column in ("digest_model", "clients", "metric", "up_content_bits"):
        assert secure[column].tolist() == plain[column].tolist()
    if settings:
        assert secure["clients"].min() < 5 and secure["failed_up_bits"].max() > 0
    else:
        assert secure["digest_payloads"].tolist() != plain["digest_payloads"].tolist()


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


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"method": "secagg(12, 0.25, 13)"}, r"--method is .*give secagg\(12, 0.25, 14\)"),
        ({"method": "sbc(0.1)"}, "--method is 'sbc"),
        ({"strategy": "dsgd"}, "--strategy secagg"),
        ({"late": "count", "deadline": "1s", "network": "4g, compute=1ms"}, "--late is 'count'"),
        ({"max_norm": 1.0}, "--max-norm is 1"),
        ({"clients": 1}, "--cohort is 1"),
        ({"strategy": "secagg(1.5)"}, "threshold is 1.5"),
        ({"weighting": "samples"}, r"--method is .*secagg\(12, 0.25, weight=12\)"),
        ({"weighting": "nova"}, "weighting is 'nova'"),
    ],
)
def test_settings_that_do_not_go_with_it_are_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        RunConfig.of(**{"strategy": "secagg", "method": METHOD, "clients": 4} | settings)


def test_a_weight_that_does_not_hold_a_clients_samples_is_refused(tmp_path: Path) -> None:
    """1,437 samples of four clients: 359 or 360."""
    settings = {"strategy": "secagg", "weighting": "samples", "clients": 4}
    with pytest.raises(UsageError, match=r"client 0 .* 360 samples.* 8 bits holds 255.*weight=9"):
        run(RunConfig.of(method="secagg(8, 0.1, weight=8)", **settings), tmp_path, progress=False)


def test_no_deployment() -> None:
    with pytest.raises(UsageError, match="secagg"):
        check_deployed("secagg(0.6)")
