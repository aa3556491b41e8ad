"""Perm-K trains the digits: in every round the clients' messages share out the entries."""

from pathlib import Path

import torch

from fedsim import run
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
