"""A federation of a million clients costs what its cohorts cost."""

import resource

import pytest

from fedsim import run
from fedsim.engines.local import LocalGrid
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


def test_a_client_of_many_is_the_client_of_few() -> None:
    """Its shard, its link and its messages follow from its number, not from how many there are."""
    few, many = (
        run(small(clients=clients, cohort=clients, partition="drawn(20)", temporal=2,
                  iterations=4),
            progress=False)
        for clients in (3, 5)
    )  # fmt: skip
    first = [result.clients.query("round == 1 and client < 3")["digest_up"].tolist()
             for result in (few, many)]  # fmt: skip
    assert first[0] == first[1] and len(set(first[0])) == 3
