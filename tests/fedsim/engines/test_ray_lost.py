"""Workers of the engine ray that are lost, once or again and again; clients that hang."""

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from ray.exceptions import GetTimeoutError, RayActorError, RaySystemError

from fedsim import RunFailed, UsageError, run
from fedsim.engines import cluster, workers
from fedsim.engines.remote import ClientStates, Job
from fedsim.engines.workers import AGAIN, JOBS_PER_WORKER, Worker, Workers, count_places
from tests.support.runs import small


class FakeRay:
    """Ray, whose actors do what ``outcomes`` say: each is a call's answer, or raises.

    Attributes:
        outcomes: worker -> the outcomes of its next calls to ``answer``.
        away: workers that are not there.
        killed: workers that were killed.
    """

    def __init__(self) -> None:
        self.outcomes: dict[int, list[Any]] = {}
        self.away, self.killed, self.count = set[int](), list[int](), 0
        self.options: dict[str, Any] = {}

    def put(self, value: Any) -> Any:
        return value

    def remote(self, **options: Any) -> Callable[[type], Any]:
        self.options = options
        return lambda kind: SimpleNamespace(remote=self._start)

    def _start(self) -> Any:
        number, self.count = self.count, self.count + 1

        def ready(_: Any) -> Any:
            return Ref(RayActorError() if number in self.away else None)

        def answer(*_: Any) -> Any:
            waiting = self.outcomes.get(number, [])
            return Ref(waiting.pop(0) if waiting else workers.pack_for_ray([], None))

        calls = {"ready": ready, "answer": answer}
        made = {name: SimpleNamespace(remote=call) for name, call in calls.items()}
        return SimpleNamespace(number=number, **made)

    def wait(self, refs: list[Any], num_returns: int = 1, timeout: float = 0) -> Any:
        done = [ref for ref in refs if not ref.hangs]
        return done[:num_returns], []

    def get(self, ref: Any) -> Any:
        assert not ref.hangs, GetTimeoutError
        if isinstance(ref.outcome, Exception):
            raise ref.outcome
        return ref.outcome

    def kill(self, actor: Any) -> None:
        self.killed.append(actor.number)


class Ref:
    """What a call will have been; one that never ends where the outcome is ``...``."""

    def __init__(self, outcome: Any) -> None:
        self.outcome, self.hangs = outcome, outcome is ...


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    made = FakeRay()
    monkeypatch.setattr(workers, "ray", made)
    return made


def app_of(states: ClientStates) -> ClientApp:
    return ClientApp()


def job() -> Job:
    return Job(([], {}, {}))


def started(fake: FakeRay, count: int) -> Workers:
    made = Workers(app_of, count, 0.5)
    assert fake.options == {"num_cpus": 1, "num_gpus": 0.5, "max_restarts": -1}
    assert not made.free
    for _ in range(count):
        assert made.wait(0.0) is None
    return made


def told(made: Workers) -> Any:
    """What a job has come to, whichever workers are heard before."""
    return next(filter(None, (made.wait(0.0) for _ in range(10))), None)


def test_a_worker_has_two_messages_and_the_idle_one_comes_first(fake: FakeRay) -> None:
    fake.outcomes = {0: [..., ...], 1: [..., ...]}
    made = started(fake, 2)
    for _ in range(JOBS_PER_WORKER * 2):
        assert made.free
        made.submit(job())
    assert not made.free and fake.outcomes == {0: [], 1: []}


def test_worker_after_worker_lost_ends_the_run(
    fake: FakeRay, caplog: pytest.LogCaptureFixture
) -> None:
    fake.outcomes = {0: [RayActorError()] * (AGAIN + 1)}
    made = started(fake, 1)
    one = job()
    with caplog.at_level(logging.WARNING, logger="fedsim"):
        for number in range(1, AGAIN + 1):
            made.submit(one)
            assert made.wait(0.0) == (one, None) and one.losses == number
            assert not made.free
            made.wait(0.0)  # it is there again
        made.submit(one)
        with pytest.raises(RunFailed, match="Ray lost the worker of a client 4 times in a row"):
            made.wait(0.0)
    assert [f"({n} so far)" in line for n, line in enumerate(caplog.messages, 1)] == [True] * 4


def test_both_messages_of_a_lost_worker_are_done_by_another(
    fake: FakeRay, caplog: pytest.LogCaptureFixture
) -> None:
    fake.outcomes = {0: [RayActorError(), RayActorError()], 1: [..., ...]}
    made = started(fake, 2)
    jobs = [job() for _ in range(4)]
    for one in jobs:
        made.submit(one)
    fake.away = {0}
    with caplog.at_level(logging.WARNING, logger="fedsim"):
        came = [made.wait(0.0) for _ in range(4)]  # and the lost one is still away
    assert [one[1] for one in came if one is not None] == [None, None]
    assert caplog.text.count("Ray lost a worker") == 1 and not made.free


def test_a_message_that_never_reached_a_worker_is_not_what_it_was_lost_to(fake: FakeRay) -> None:
    fake.outcomes = {0: [RayActorError()], 1: [RayActorError()] * 20}
    made = started(fake, 2)
    one = job()
    made.submit(one)
    assert told(made) == (one, None) and one.losses == 1
    fake.away = {1}
    made.submit(one)  # to the other, which is gone as well: one machine had both
    assert told(made) == (one, None) and one.losses == 1


def test_an_answer_that_cannot_be_read_is_the_client_s_failure(fake: FakeRay) -> None:
    fake.outcomes = {0: [RaySystemError("cannot be read")]}
    made = started(fake, 1)
    made.submit(one := job())
    assert (came := told(made)) is not None and came[0] is one and came[1] is not None
    assert "cannot be read" in str(came[1][0]) and came[1][1] is None
    for _ in range(JOBS_PER_WORKER):  # it has room for as many as before
        assert made.free
        made.submit(job())
    assert not made.free


def test_workers_end_whatever_they_are_at(fake: FakeRay) -> None:
    fake.outcomes = {0: [...]}
    made = started(fake, 2)
    made.submit(job())
    made.close()
    assert fake.killed == [0, 1]


def test_an_app_that_cannot_be_sent_is_told(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(value: Any) -> None:
        raise TypeError("cannot pickle a lock")

    monkeypatch.setattr(fake, "put", put)
    with pytest.raises(UsageError, match="--engine is 'ray': the task cannot be .* a lock"):
        Workers(app_of, 1, 0.0)


def test_an_app_that_cannot_be_unpacked_fails_its_clients(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaves(_: Any) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(fake, "get", leaves)
    worker = Worker()
    worker.ready([SimpleNamespace()])  # type: ignore[list-item]
    assert workers.unpack_from_ray(worker.answer(b"", None)) == ("SystemExit: 3", None)


def test_a_worker_unpacks_the_app_once(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Any]()

    def made(states: ClientStates) -> ClientApp:
        app = ClientApp()

        @app.train()
        def train(message: Message, context: Context) -> Message:
            states.commit(context, {}, {"w": states.load(context, {})["w"] + 1})
            return Message(RecordDict(), reply_to=message)

        return app

    def get(reference: Any) -> Any:
        asked.append(reference)
        return made

    monkeypatch.setattr(fake, "get", get)
    worker, memory = Worker(), {"w": torch.tensor(1.5, dtype=torch.bfloat16)}
    assert worker.answer(*workers.pack_for_ray(([], {}), memory)) is None  # Ray has replaced it
    worker.ready(["app"])
    for _ in range(3):
        came = worker.answer(*workers.pack_for_ray(([], {}), memory))
        assert came is not None
        records, memory = workers.unpack_from_ray(came)
        assert records == []
    assert asked == ["app"] and memory["w"] == 4.5


def test_a_worker_that_ray_has_replaced_unseen_is_asked_again(fake: FakeRay) -> None:
    fake.outcomes = {0: [None]}
    made = started(fake, 1)
    made.submit(one := job())
    assert told(made) == (one, None) and one.losses == 0
    made.wait(0.0)
    made.submit(one)
    assert told(made) == (one, ([], None))


def test_a_memory_travels_as_it_is() -> None:
    memory = {
        "none": torch.empty(0, 3),
        "number": torch.tensor(7),
        "half": torch.ones(3, 5).bfloat16(),
        "last": torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4).permute(2, 0, 1),
        "yes": torch.tensor([True, False, True]),
        "bytes": torch.arange(7, dtype=torch.uint8),
    }
    plain, came = workers.unpack_from_ray(workers.pack_for_ray({"a": b"b"}, memory))
    assert plain == {"a": b"b"} and list(came) == list(memory)
    for name, x in memory.items():
        assert came[name].dtype == x.dtype and torch.equal(came[name], x)
    assert workers.unpack_from_ray(workers.pack_for_ray(1, {})) == (1, {})


def test_there_is_a_worker_for_every_core_with_its_share_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [
        {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 1.0}},
        {"Alive": True, "Resources": {"CPU": 2.0}},
        {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 4.0}},
        {"Alive": False, "Resources": {}},
    ]
    monkeypatch.setattr(workers, "ray", SimpleNamespace(nodes=lambda: nodes))
    assert [count_places(gpus) for gpus in (0.0, 1 / 3, 1.0, 2.0)] == [12, 5, 3, 2]
    with pytest.raises(UsageError, match="no machine of the cluster has a core and 8 of a GPU"):
        count_places(8.0)


@pytest.mark.parametrize("engine", ["local", "ray", "flower"])
def test_an_address_is_for_engines_on_ray_alone(engine: str, tmp_path: Path) -> None:
    local = engine == "local"
    settings: dict[str, Any] = {"engine": engine, "workers": 1 if local else 2}
    name = "--engine is 'local'" if local else "--workers is 2"
    with pytest.raises(UsageError, match=f"--ray-address is '1.2.3.4:5' and {name}"):
        run(small(clients=2, **settings), tmp_path, ray_address="1.2.3.4:5")


def test_ray_joins_the_address_that_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address of Ray's client names its protocol, which no socket knows."""
    import ray

    joined = list[Any]()
    monkeypatch.setattr(ray, "init", lambda **given: joined.append(given["address"]))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            cluster.connect(1, address, "--engine is 'ray'")
            assert joined.pop() == address


def hanging(states: ClientStates) -> ClientApp:
    from threading import Event

    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        Event().wait()
        raise AssertionError

    return app


@pytest.mark.slow
@pytest.mark.processes
def test_nobody_waits_for_a_client_that_hangs_when_the_server_is_done(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """And its actor ends without a word."""
    import ray

    cluster.connect(1, None, "--engine is 'ray'")
    try:
        made = Workers(hanging, count_places(0.0), 0.0)
        while not made.free:
            made.wait(1.0)
        made.submit(job())
        made.wait(1.0)
        made.close()
    finally:
        ray.shutdown()
    assert capfd.readouterr().out == ""
