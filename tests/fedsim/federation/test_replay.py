"""Bits are honest: the stored messages alone make the weights, and their lengths the ledger."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from compressors import explain
from fedsim import RunConfig, run
from tests.support import replaying
from tests.support.runs import model, rounds, small

RAW_DOWN: dict[str, dict[str, Any]] = {
    "sbc": {},
    "gradient dropping, global": {"method": "gradient_dropping(0.05, scope=model)", "seed": 2},
    "raw": {"method": "raw"},
    "no residual": {"method": "topk(0.05) | float32 | golomb", "clients": 3},
    "partial cohort": {"cohort": 2, "iterations": 60},
    "three of four": {"method": "gradient_dropping(0.01)", "cohort": 3, "workers": 2},
}
BOTH_WAYS: dict[str, dict[str, Any]] = {
    "all": {"downlink": "sbc(0.05)"},
    "partial cohort": {"downlink": "gradient_dropping(0.05)", "cohort": 2, "iterations": 60},
}


Kept = Callable[[dict[str, Any]], tuple[RunConfig, Path]]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Runs settings with ``--keep-payloads``, once for all tests of this file."""
    done: dict[str, tuple[RunConfig, Path]] = {}

    def once(settings: dict[str, Any]) -> tuple[RunConfig, Path]:
        key = repr(settings)
        if key not in done:
            config, out = small(keep_payloads=True, **settings), tmp_path_factory.mktemp("run")
            run(config, out)
            done[key] = config, out
        return done[key]

    return once


@pytest.mark.parametrize("settings", RAW_DOWN.values(), ids=RAW_DOWN)
def test_uplinks_alone_make_the_weights(settings: dict[str, Any], kept: Kept) -> None:
    config, folder = kept(settings)
    replayed = replaying.raw_downlink(folder, config)
    replaying.assert_equal(dict(sorted(replayed.items())), weights(folder))
    assert not same(replayed, replaying.initial(config))


@pytest.mark.parametrize("settings", BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_a_compressed_downlink(settings: dict[str, Any], kept: Kept) -> None:
    config, folder = kept(settings)
    seen, server = replaying.compressed_downlink(folder, config)
    replaying.assert_equal(dict(sorted(server.items())), weights(folder))
    assert not same(seen, server)  # the last update came after the last message


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(sorted(load_file(folder / "model.safetensors").items()))


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(x, other[name]) for name, x in one.items())


def test_the_split_is_what_a_reader_finds(kept: Kept) -> None:
    config, folder = kept({"method": "gradient_dropping(0.05)"})
    frame, template = rounds(folder), replaying.initial(config)
    for i, files in enumerate(replaying.messages(folder, "*-up.bin")):
        found: dict[str, int] = defaultdict(int)
        for file in files.values():
            spans = explain(config.plan.method.compressor, file.read_bytes(), template)
            for span, bits in spans.items():
                found[span] += bits
        row = frame.iloc[i]
        assert dict(found) == {
            "header": row["up_header_bits"],
            "positions": row["up_position_bits"],
            "values": row["up_value_bits"],
            "side": row["up_side_bits"],
        }
        assert row["up_value_bits"] == 32 * row["up_sent"]


def test_keeping_payloads_changes_nothing(tmp_path: Path, kept: Kept) -> None:
    run(small(), tmp_path)
    assert model(tmp_path) == model(kept({})[1])
    assert not (tmp_path / "payloads").exists()
