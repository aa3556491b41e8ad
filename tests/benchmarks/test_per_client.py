"""The benchmark of what a client costs: that nothing is trained, and that rounds are counted."""

import pytest

SCRIPT = "per_client"


@pytest.mark.slow
def test_every_training_gives_the_same_update(bench, monkeypatch):
    given = []
    stub = bench.stub
    monkeypatch.setattr(bench, "stub", lambda *job, **rest: given.append(stub(*job)) or given[-1])
    cost = bench.measure(bench.config(2, 1, "sbc(0.01)"))
    rounds = 2 * (bench.WARM + 1)  # without the profiler, and with it
    assert len(given) == 2 * rounds and len({id(one) for one in given}) == 2  # one per trainer
    assert cost.calls > 100 and cost.milliseconds > 0


def test_the_cost_of_a_client_is_printed(bench, monkeypatch, capsys):
    monkeypatch.setattr(bench, "measure", lambda run, profiles: bench.Cost(812.4, 0.6543))
    bench.main(["--clients", "3", "--rounds", "2"])
    assert "| per client and round | 812 | 0.654 |" in capsys.readouterr().out
