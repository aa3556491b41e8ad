"""Bits are honest: the stored messages alone make the weights, and their lengths the ledger."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from compressors import explain
from compressors.whole.memory import unnest
from fedsim import RunConfig, run
from fedsim.federation.trainer import Trainer
from tests.support import replaying
from tests.support.runs import Memories, clients, model, rounds, small

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


def test_with_weights_by_samples(kept: Kept) -> None:
    settings = {"weighting": "samples", "partition": "dirichlet(0.5)", "method": "raw"}
    config, folder = kept(settings)
    samples = clients(folder).groupby("client")["samples"].first()
    assert samples.nunique() > 1
    replayed = replaying.raw_downlink(folder, config, samples.to_dict())
    replaying.assert_equal(dict(sorted(replayed.items())), weights(folder))


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


@pytest.mark.parametrize(
    "settings",
    [*RAW_DOWN.values(), *BOTH_WAYS.values(), {"strategy": "fedadam", "downlink": "sbc(0.1)"}],
    ids=[*RAW_DOWN, *BOTH_WAYS, "fedadam"],
)
def test_lengths_sum_to_the_ledger(settings: dict[str, Any], kept: Kept) -> None:
    _, folder = kept(settings)
    frame, by_client = rounds(folder).set_index("round"), clients(folder)
    up_total = 0
    for i, (ups, downs) in enumerate(
        zip(
            replaying.messages(folder, "*-up.bin"),
            replaying.messages(folder, "*-down-*.bin"),
            strict=True,
        )
    ):
        mine = by_client[by_client["round"] == i + 1].set_index("client")
        assert sorted(ups) == mine.index.tolist() == sorted(downs)
        bits = {c: 8 * f.stat().st_size for c, f in ups.items()}
        assert bits == mine["up_wire_bits"].to_dict()
        assert sum(bits.values()) == frame.loc[i + 1, "up_wire_bits"]
        up_total += sum(bits.values())
        free = {c for c, f in downs.items() if f.name.endswith("-free.bin")}
        assert free == (set(downs) if i == 0 else set())
        bits = {c: 8 * f.stat().st_size * (c not in free) for c, f in downs.items()}
        assert bits == mine["down_wire_bits"].to_dict()
        assert sum(bits.values()) == frame.loc[i + 1, "down_wire_bits"]
    assert up_total == frame["up_wire_bits"].sum()


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


@pytest.mark.parametrize("method", ["sbc(0.05)", "gradient_dropping(0.02, scope=model)"])
def test_nothing_is_lost(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sum(decoded) + residual = sum(updates), for every client."""
    memories, wanted = Memories(monkeypatch), defaultdict(list)
    train = Trainer.train

    def recording(self: Trainer, client: int, *rest: Any) -> Any:
        trained = train(self, client, *rest)
        wanted[client].append({n: x.clone() for n, x in trained.update.items()})
        return trained

    monkeypatch.setattr(Trainer, "train", recording)
    config, folder = small(method=method, cohort=3, iterations=40, keep_payloads=True), tmp_path
    run(config, folder)
    ups = replaying.uplinks(folder, config)
    for client in range(4):
        sent = [up[client] for up in ups if client in up]
        assert len(sent) == len(wanted[client]) > 0
        residual = unnest("uplink/residual", memories.states.copy()[client])
        for name, x in residual.items():
            received = sum(up[name].double() for up in sent)
            updates = sum(update[name].double() for update in wanted[client])
            torch.testing.assert_close(received + x.double(), updates, rtol=1e-5, atol=1e-6)
            assert x.abs().max() > 0


def test_keeping_payloads_changes_nothing(tmp_path: Path, kept: Kept) -> None:
    run(small(), tmp_path)
    assert model(tmp_path) == model(kept({})[1])
    assert not (tmp_path / "payloads").exists()
