"""Runs of votes, of integer sums, and of Perm-K: their bits, and what does not fit them."""

import json
from pathlib import Path

import pytest
import torch

from compressors import Switch, parse
from fedsim import RunFailed, UsageError, run
from fedsim.settings.config import cached_plan, from_toml
from tests.support import replaying
from tests.support.runs import clients, rounds, small

VOTE = {
    "method": "sign(0.01)",
    "temporal": 1,
    "iterations": 14,
    "evaluate_every": 14,
    "strategy": "majority",
}
SWITCH = {"method": "cnat(5, 0)", "strategy": "innetwork", "temporal": 5, "iterations": 20}
PERMK = {"strategy": "permk", "method": "permk(4)", "iterations": 15, "keep_payloads": True}


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


def test_an_overflow_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that believes in more room: entries at the top of the window fill 2**31 units."""
    cached_plan.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(Switch, "capacity", 10)
        config = small(**SWITCH | {"method": "cnat(6, -20)"})
        words = r"round 1, tensor '.*', entry \d+: .* 32 bits"
        with pytest.raises(RunFailed, match=words) as error:
            run(config, tmp_path)
    cached_plan.cache_clear()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["status"], summary["error"]) == ("failed", str(error.value))


def test_it_is_the_cohort_that_has_to_fit() -> None:
    """2**31 - 1 units hold 131071 times 2**14 of them, and one 2**30."""
    many = SWITCH | {"clients": 200_000}
    assert small(**many, cohort=131_071).plan.cohort == 131_071
    with pytest.raises(UsageError, match="131071 clients, and the cohort has 131072"):
        small(**many, cohort=131_072)
    assert small(**SWITCH | {"method": "cnat(6, 0)"}, cohort=1).plan.cohort == 1


def test_a_round_sends_every_entry_once(tmp_path: Path) -> None:
    config = small(**PERMK)
    rows = run(config, tmp_path).rounds
    orders = []
    for ups in replaying.uplinks(tmp_path, config):
        assert sorted(ups) == [0, 1, 2, 3]
        flat = torch.stack([torch.cat([x.flatten() for x in up.values()]) for up in ups.values()])
        sent = flat != 0  # of a new model some gradients are zero: at most once, then
        assert int(sent.sum(0).max()) == 1
        assert sent.sum(1).float().std() < 0.3 * sent.sum(1).float().mean()
        orders.append(sent)
    assert len(orders) > 1 and not torch.equal(orders[0], orders[1])
    assert len(set(rows["up_wire_bits"])) == 1
