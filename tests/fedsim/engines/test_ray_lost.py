"""Messages that lost their Ray worker again and again, or whose client hangs; addresses."""

from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from queue import SimpleQueue
from threading import Barrier, Event, Semaphore, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from fedsim import RunFailed, UsageError, run
from fedsim.engines import cluster, compat, flower, local, lost
from fedsim.engines.carried import Carried
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


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Flower's modules that fedsim changes; afterwards they are what they were."""
    from flwr.server.superlink.fleet.vce import vce_api
    from flwr.server.superlink.fleet.vce.backend import raybackend

    for module, name in (
        (vce_api, "add_messages_to_queue"), (vce_api, "ThreadPoolExecutor"),
        (raybackend, "BasicActorPool"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, getattr(module, name))
    return SimpleNamespace(api=vce_api, backend=raybackend)


def test_nobody_waits_for_a_client_that_hangs_when_the_server_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two messages wait for their replies, and one for the worker that has the two."""
    from flwr.simulation.ray_transport.ray_actor import BasicActorPool
    from ray.exceptions import GetTimeoutError

    from fedsim.engines import pool

    over, waits, ended = Event(), Semaphore(0), SimpleQueue[None]()

    def get(future: object, timeout: float) -> None:
        waits.release()
        over.wait(timeout)
        raise GetTimeoutError

    def begin(self: Any) -> None:
        self.pool, self.num_actors, self.create_actor_fn = [], 0, object

    def ask() -> None:
        with pytest.raises(CancelledError):
            workers.fetch_result_and_return_actor_to_pool(
                workers.submit(lambda actor, *job: object(), (None,))
            )
        ended.put(None)

    monkeypatch.setattr(pool, "ray", SimpleNamespace(get=get, put=lambda x: x))
    monkeypatch.setattr(BasicActorPool, "__init__", begin)
    workers = pool.Pool(over)
    workers.add_actors_to_pool(1)
    for _ in range(3):
        Thread(target=ask, daemon=True).start()
    assert waits.acquire(timeout=60) and waits.acquire(timeout=60)
    over.set()
    for _ in range(3):
        ended.get(timeout=60)


def fails(_: object) -> None:
    raise RunFailed("fewer replies than --min-replies")


@pytest.mark.parametrize("main", [lambda _: None, fails])
def test_the_pool_is_told_when_the_server_is_done(
    main: Callable[[Any], None], patched: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[bool]()

    def simulation(server: Any, *_: Any, **__: Any) -> None:
        over = patched.backend.BasicActorPool()
        told.append(over.is_set())
        try:
            server(SimpleNamespace(), Context(1, 1, {}, RecordDict(), {}))
        finally:
            told.append(over.is_set())

    monkeypatch.setattr("fedsim.engines.pool.Pool", lambda over: over)
    monkeypatch.setattr("flwr.simulation.run_simulation", simulation)
    monkeypatch.setattr(cluster, "connect", lambda *_: None)
    try:
        flower.simulate(main, ClientApp(), 1, 1, Carried())
    except RunFailed:
        assert main is fails
    assert told == [False, True]


def test_as_many_messages_as_workers_wait_for_their_replies(patched: SimpleNamespace) -> None:
    everybody = Barrier(40)  # Flower would have 32 threads at most
    with compat.simulate_with(object), patched.api.ThreadPoolExecutor() as threads:
        for waiting in [threads.submit(everybody.wait, 20) for _ in range(40)]:
            waiting.result()


def test_flower_s_own_simulation_is_as_it_was_after_one_of_ours(patched: SimpleNamespace) -> None:
    """A pool of a server that is done answers nobody any more."""
    before = dict(vars(patched.api)), dict(vars(patched.backend))
    with compat.simulate_with(object):
        assert patched.backend.BasicActorPool is object
    assert (dict(vars(patched.api)), dict(vars(patched.backend))) == before
