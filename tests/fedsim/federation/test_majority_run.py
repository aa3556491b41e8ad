"""Runs of votes: a bit per entry both ways, and the downlink that carries them."""

from pathlib import Path

from safetensors.torch import load_file

from compressors import parse
from fedsim import run
from fedsim.settings.config import from_toml
from tests.support.replaying import Weights
from tests.support.runs import clients, rounds, small

SIGN = {"method": "sign(0.01)", "temporal": 1, "iterations": 14, "evaluate_every": 14}
VOTE = SIGN | {"strategy": "majority"}


def final(folder: Path) -> Weights:
    return dict(sorted(load_file(folder / "model.safetensors").items()))


def test_the_vote_is_one_bit_an_entry_both_ways(tmp_path: Path) -> None:
    config = small(**VOTE | {"iterations": 3, "evaluate_every": 3})
    summary = run(config, tmp_path).summary
    bits = 24 + summary["parameters"]
    bits += -bits % 8
    assert rounds(tmp_path)["up_wire_bits"].tolist() == [4 * bits] * 3
    assert rounds(tmp_path)["down_wire_bits"].tolist() == [0, 4 * bits, 4 * bits]
    assert set(clients(tmp_path)["up_wire_bits"]) == {bits}


def test_the_default_downlink(tmp_path: Path) -> None:
    """Raw, but for votes the one bit that carries them; spelled out it is the same run."""
    assert small().plan.downlink == small(downlink="raw").plan.downlink == parse("raw")
    assert small().digest == small(downlink="raw").digest
    vote = small(**VOTE)
    assert vote.digest == small(**VOTE, downlink="sign(0.01)").digest
    assert vote.digest != small(**VOTE, downlink="raw").digest
    assert small(**VOTE, downlink="raw").plan.downlink == parse("raw")
    assert vote.identity()["downlink"] == "per_tensor(sign(0.01))"
    (tmp_path / "config.toml").write_text(vote.to_toml(), encoding="utf-8")
    assert "downlink" not in vote.to_toml() and from_toml(tmp_path / "config.toml") == vote
