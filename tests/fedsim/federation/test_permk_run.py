"""Perm-K trains the digits: in every round the clients' messages share out the entries."""

from pathlib import Path

import pytest
import torch

from fedsim import RunConfig, UsageError, run
from strategies import PermK, build
from tests.support import replaying
from tests.support.runs import small

SETTINGS = {"strategy": "permk", "method": "permk(4)", "iterations": 15, "keep_payloads": True}


def test_a_round_sends_every_entry_once(tmp_path: Path) -> None:
    config = small(**SETTINGS)
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


def test_permk_and_its_strategy_belong_together() -> None:
    from compressors import parse

    for strategy in ("dsgd", "marina"):
        with pytest.raises(UsageError):
            RunConfig.of(method="permk(4)", strategy=strategy)
    with pytest.raises(UsageError, match="messages of permk are read by --strategy permk alone"):
        RunConfig.of(method="permk(4)")
    with pytest.raises(UsageError, match=r"--method is 'sbc\(0.1\)'.*give 'permk\(4\)'"):
        RunConfig.of(method="sbc(0.1)", strategy="permk")
    with pytest.raises(UsageError, match=r"--method is 'permk\(3\)'.*give permk\(4\)"):
        RunConfig.of(method="permk(3)", strategy="permk", clients=4)
    with pytest.raises(UsageError, match="--cohort is 2 of 4 clients"):
        RunConfig.of(method="permk(4)", strategy="permk", clients=4, cohort=2)
    with pytest.raises(ValueError, match=r"uplink is permk\(3\).*give permk\(4\)"):
        build(PermK(), parse("permk(3)"), clients=4)
