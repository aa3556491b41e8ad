"""Energy and FLOPs of rounds by hand: two clients, known bits and FLOPs, seconds and joules.

The task is a linear model of 8 inputs and 1 output; a batch has 3 samples. The forward pass
multiplies (3, 8) by (8, 1): 2 x 3 x 8 = 48 FLOPs. The backward pass makes the weight's gradient,
(1, 3) by (3, 8): 48 more; nobody needs that of the inputs. An iteration has 96 FLOPs. A message of
the model is 9 floats and 24 bits: 312 bits.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import RunConfig, UsageError, load, run
from fedsim.ground.records import DROPPED
from fedsim.network.spec import parse
from fedsim.show.times import priced
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import assert_same
from tests.support.twin import task

BITS, FLOPS = 312, 96
LINKS = "up=1kbit, down=2kbit"
ENERGY = "energy_up=2mJ/bit, energy_down=1mJ/bit, energy_compute=5W"


def config(**settings: Any) -> RunConfig:
    """Two clients, two iterations a round."""
    base: dict[str, Any] = {"task": task.PLAIN, "method": "raw", "clients": 2, "temporal": 2}
    return RunConfig.of(**base | {"batch_size": 3, "iterations": 8, "seed": 1} | settings)


def tables(folder: Path, **settings: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    run(config(**settings), folder, progress=False)
    return tuple(pd.read_parquet(folder / f"{name}.parquet") for name in ("rounds", "clients"))


def test_a_round_by_hand(tmp_path: Path) -> None:
    """An iteration takes 96 / 960 = 0.1 s, a round's two 0.2 s and 5 W x 0.2 s = 1 J."""
    rounds, clients = tables(tmp_path, network=f"{LINKS}, compute=960FLOP/s, {ENERGY}")
    assert rounds["sim_compute_seconds"].tolist() == pytest.approx([0.2] * 4, abs=1e-12)
    seconds = [0.2 + 0.312, *[0.156 + 0.2 + 0.312] * 3]
    assert rounds["sim_seconds"].tolist() == pytest.approx(seconds, abs=1e-12)
    each = [1 + 0.624, *[0.312 + 1 + 0.624] * 3]  # the first model is free
    assert clients["energy_joules"].tolist() == pytest.approx([x for x in each for _ in "ab"])
    assert rounds["energy_joules"].tolist() == pytest.approx([2 * x for x in each], abs=1e-12)
    total = pd.read_json(tmp_path / "summary.json", typ="series")["energy_joules"]
    assert total == pytest.approx(2 * sum(each))


def test_joules_per_operation_and_flops_by_hand(tmp_path: Path) -> None:
    """Whatever the time; 2 x 50 FLOPs of 10 mJ are 1 J, and 96 of them 1.92 J."""
    text = f"{LINKS}, compute=3s, energy_compute=10mJ/FLOP"
    with pytest.raises(UsageError, match="in pJ, nJ or uJ"):
        config(network=text.replace("10mJ", "1MJ"))
    rounds, _ = tables(tmp_path / "counted", network=text)
    assert rounds["energy_joules"].tolist() == pytest.approx([2 * 1.92] * 4)
    rounds, _ = tables(tmp_path / "given", network=f"{text}, flops=50FLOP")
    assert rounds["energy_joules"].tolist() == pytest.approx([2 * 1.0] * 4)


def test_a_run_ends_with_its_energy(tmp_path: Path) -> None:
    """Rounds of 1.248 J: with the third 3.744 J are spent, as floats 3.7439999999999998."""
    network = f"{LINKS}, compute=1s, energy_up=2mJ/bit"
    more = {"network": network, "evaluate_every": 4}
    rounds, _ = tables(tmp_path, **more, stop_at_joules="3.744J")
    assert rounds["metric"].notna().tolist() == [False, False, True]
    assert "stop_at_joules" not in config(network=network).identity()
    with pytest.raises(UsageError, match="--stop-at-joules is 2 .*nothing takes energy"):
        config(network=LINKS, stop_at_joules=2)


@pytest.mark.parametrize("strategy", ["dsgd", "fedbuff(1)"])
def test_a_battery_ends_a_client(strategy: str, tmp_path: Path) -> None:
    """It ends the round in which it becomes empty; with both the run ends, and is scored."""
    network = f"{LINKS}, compute=uniform(1s, 2s), energy_up=2mJ/bit, battery=uniform(1J, 3J)"
    most = parse(network).energy(2, 1).battery
    each = [-int(-float(x) // 0.624) for x in most]  # requests until it is empty
    assert each[0] != each[1]
    settings = {"network": network, "strategy": strategy, "iterations": 80, "cohort": 2}
    rounds, clients = tables(tmp_path / "whole", **settings)
    assert clients["client"].value_counts().sort_index().tolist() == each
    assert rounds["energy_joules"].sum() == pytest.approx(0.624 * sum(each))
    assert rounds["metric"].notna().iloc[-1]
    stopped = tmp_path / "stopped"
    with pytest.raises(Stopped):
        run(config(**settings, checkpoint_every=1), stopped, callbacks=[stop_after(2)])
    run(config(**settings, checkpoint_every=1), stopped, progress=False)
    assert_same(tmp_path / "whole", stopped)


def test_the_price_is_what_a_run_spends(tmp_path: Path) -> None:
    """On another network than the run's; one with a battery has none."""
    network, dropout = f"{LINKS}, compute=lognormal(960FLOP/s, 0.5), {ENERGY}", "0.2, after=0.4"
    own, clients = tables(tmp_path / "own", network=network, dropout=dropout)
    assert {"", *DROPPED.values()} == {*clients["failure_reasons"]}
    run(config(dropout=dropout, network="compute=1s"), tmp_path / "plain", progress=False)
    results = load(tmp_path / "plain")
    with pytest.raises(UsageError, match="its battery decides who trains"):
        priced(results, parse(f"{network}, battery=5J"))
    told = priced(results, parse(f"{network}, flops=96FLOP"))
    assert told["energy_joules"].tolist() == pytest.approx(own["energy_joules"].tolist())
    assert told["sim_seconds"].tolist() == pytest.approx(own["sim_seconds"].tolist())


@pytest.mark.parametrize(
    ("sampler", "strategy", "first", "later"),
    [  # a round has one client, of 1 + 0.624 J; the model costs 0.312 J, 32 bits up 0.064 J
        ("weighted(samples)", "dsgd", 2 * 0.064 + 1.624, 0.312 + 1.624),
        ("weighted(samples)", "fedbuff(1)", 2 * 0.064 + 1.624, 0.312 + 1.624),
        ("power_of_choice(2, batches=3)", "dsgd", 4 * 0.064 + 1 + 1.624, 2 * 0.376 + 1 + 1.624),
    ],
)
def test_what_a_sampler_asks_for(
    sampler: str, strategy: str, first: float, later: float, tmp_path: Path
) -> None:
    """Three batches take as long as one iteration: 0.1 s of 5 W, and of two candidates 1 J."""
    network = f"{LINKS}, compute=960FLOP/s, {ENERGY}"
    settings = {"cohort": 1, "sampler": sampler, "strategy": strategy}
    rounds, clients = tables(tmp_path, network=network, **settings)
    assert rounds["energy_joules"].tolist() == pytest.approx([first, later, later, later])
    assert clients["energy_joules"].iloc[1:].min() >= 1.624


def test_workers_that_are_servers_have_no_energy() -> None:
    with pytest.raises(UsageError, match="--strategy is 'sharded'"):
        config(network=f"{LINKS}, compute=1s, {ENERGY}", strategy="sharded", temporal=1)
