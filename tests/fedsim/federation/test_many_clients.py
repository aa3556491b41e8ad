"""A federation of a million clients costs what its cohorts cost."""

import resource
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from fedsim import run
from fedsim.engines.local import LocalGrid
from fedsim.network.availability import OnOff
from fedsim.network.rates import Rate
from strategies.channel.nodes import QUERY
from tests.support.runs import small


def test_a_million_clients_are_not_asked_who_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, send = [], LocalGrid.send_and_receive

    def counted(self, messages, **given):  # type: ignore[no-untyped-def]
        messages = list(messages)
        sent.extend(message.metadata.message_type for message in messages)
        return send(self, messages, **given)

    monkeypatch.setattr(LocalGrid, "send_and_receive", counted)
    settings = {"cohort": 3, "partition": "drawn(20)", "network": "4g, compute=10ms"}
    run(small(clients=100, **settings), progress=False)
    sent.clear()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = run(small(clients=1_000_000, **settings), progress=False)
    assert QUERY not in sent and len(sent) == 3 * len(result.rounds)
    assert result.clients["client"].max() > 100 and result.summary["status"] == "done"
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert used < 150 * 2**10  # KiB; arrays of links and of draws, 8 bytes per client each


CLOCKED: dict[str, dict[str, Any]] = {
    "on and off": {"availability": "onoff(10min, 5min)"},
    "a trace for all": {"availability": "there.csv"},
    "late clients": {"ask": 5, "deadline": "10s"},
    "fedasync": {"strategy": "fedasync", "method": "raw"},
    "fedbuff on traces": {"strategy": "fedbuff(2)", "network": "trace=links.csv, compute=10ms"},
}


@pytest.mark.parametrize("name", CLOCKED)
def test_clocks_look_at_the_clients_of_a_cohort(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a million clients, links and times on and off are made for those that are asked."""
    made, constant, times = [0], Rate.constant, OnOff.__init__

    def counted(*given: Any) -> Any:
        made[0] += 1
        return times(*given) if isinstance(given[0], OnOff) else constant(*given)

    monkeypatch.setattr(Rate, "constant", counted)
    monkeypatch.setattr(OnOff, "__init__", counted)
    monkeypatch.chdir(tmp_path)
    Path("there.csv").write_text("client,seconds,available\n7,0,1\n*,0,1\n*,9,0\n*,12,1\n")
    Path("links.csv").write_text("seconds,up,down\n0,5000000,9000000\n")
    settings = {"network": "4g, compute=10ms", "cohort": 3, "partition": "drawn(20)"}
    config = small(clients=1_000_000, **settings | CLOCKED[name])
    tracemalloc.start()
    result = run(config, progress=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.summary["status"] == "done" and result.clients["client"].max() > 100
    assert made[0] < 2000
    assert peak < 1e8  # arrays of a million numbers for links, and no million of objects


def test_a_client_of_many_is_the_client_of_few() -> None:
    """Its shard, its link and its messages follow from its number, not from how many there are."""
    few, many = (
        run(
            small(clients=clients, cohort=clients, partition="drawn(20)", temporal=2, iterations=4),
            progress=False,
        )
        for clients in (3, 5)
    )
    first = [
        result.clients.query("round == 1 and client < 3")["digest_up"].tolist()
        for result in (few, many)
    ]
    assert first[0] == first[1] and len(set(first[0])) == 3
