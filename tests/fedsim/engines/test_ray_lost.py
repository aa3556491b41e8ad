"""Messages that lost their Ray worker again and again; addresses that no engine takes."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.clientapp import ClientApp

from fedsim import RunFailed, UsageError, run
from fedsim.engines import local, lost
from strategies.channel.cohort_grid import CohortGrid
from tests.support.runs import small


class Replies(CohortGrid):
    """A grid with one reply, an error."""

    def __init__(self, reason: str) -> None:
        super().__init__(local.LocalGrid(ClientApp(), clients=1), [])
        ask = Message(RecordDict(), dst_node_id=1, message_type="train")
        self.reply = Message(Error(code=0, reason=reason), reply_to=ask)

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        return [self.reply]


def test_worker_after_worker_lost_ends_the_run() -> None:
    local.compat.identify()
    died = "<class 'ray.exceptions.ActorDiedError'>:<'The actor died unexpectedly'>"
    with pytest.raises(RunFailed, match="Ray lost the worker of a client 4 times in a row"):
        list(lost.LossTellingGrid(Replies(died)).send_and_receive([]))
    other = "<class 'flwr.ClientAppException'>:<'a weight is not finite'>"
    assert list(lost.LossTellingGrid(Replies(other)).send_and_receive([]))


@pytest.mark.parametrize("settings", [{}, {"engine": "flower", "workers": 2}])
def test_an_address_is_for_flowers_engine_alone(settings: dict[str, Any], tmp_path: Path) -> None:
    name = "--workers is 2" if settings else "--engine is 'local'"
    with pytest.raises(UsageError, match=f"--ray-address is '1.2.3.4:5' and {name}"):
        run(small(clients=2, **settings), tmp_path, ray_address="1.2.3.4:5")
