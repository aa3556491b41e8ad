"""The grid over workers that answer when the test says so."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedsim.engines import remote
from fedsim.engines.remote import ClientStates, Job, RemoteAnswer, RemoteClients, RemoteGrid
from fedsim.engines.workers import JOBS_PER_WORKER
from fedsim.federation.client_memory import InProcess
from strategies.channel.nodes import PARTITION_ID
from strategies.channel.payload import KEY

LONG = 600.0


def app_of(states: ClientStates) -> ClientApp:
    """Clients that count their messages, in memory, and fail where the message says so."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        settings = message.content.config_records[KEY]
        if settings["word"] == "fails":
            raise ValueError("on purpose")
        if settings["word"] == "ctrl-c":
            raise KeyboardInterrupt
        done = int(states.load(context, settings).get("done", torch.tensor(0))) + 1
        states.commit(context, settings, {"done": torch.tensor(done)})
        count = MetricRecord({"done": done, "client": int(str(context.node_config[PARTITION_ID]))})
        return Message(RecordDict({"m": count}), reply_to=message)

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return Message(RecordDict({"here": ConfigRecord()}), reply_to=message)

    return app


class Directed:
    """Workers whose jobs are answered, or lost, as ``act`` says; they note what they were given.

    Args:
        count: how many.
        act: takes the jobs at workers; returns the next, and whether its worker is lost.
    """

    def __init__(self, count: int, act: Callable[[list[Job]], tuple[Job | None, bool]]) -> None:
        self.most, self.act = JOBS_PER_WORKER * count, act
        self.jobs, self.ended = list[Job](), False
        self.clients, self.given = RemoteClients(app_of), list[int]()

    @property
    def free(self) -> bool:
        return len(self.jobs) < self.most

    def submit(self, job: Job) -> None:
        assert self.free
        self.jobs.append(job)
        self.given.append(int(job.request[1][PARTITION_ID]))

    def wait(self, seconds: float) -> tuple[Job, RemoteAnswer | None] | None:
        job, lost = self.act([*self.jobs]) if self.jobs else (None, False)
        if job is None:
            return None
        self.jobs.remove(job)
        return job, None if lost else self.clients.answer(job.request)

    def close(self) -> None:
        self.ended = True


def grid_over(workers: Any, clients: int) -> tuple[RemoteGrid, InProcess]:
    states = InProcess()
    states.begin(None)
    return RemoteGrid(app_of, clients, states, workers), states


def to(*nodes: int, word: str = "", kind: str = "train") -> list[Message]:
    return [Message(RecordDict({KEY: ConfigRecord({"word": word})}), n, kind) for n in nodes]


def first(jobs: list[Job]) -> tuple[Job | None, bool]:
    return jobs[0], False


def test_every_client_answers_and_keeps_its_memory_here() -> None:
    workers = Directed(1, first)
    grid, states = grid_over(workers, 5)
    for done in (1, 2):
        replies = list(grid.send_and_receive(to(1, 2, 3, 4, 5), timeout=LONG))
        counts = {r.metadata.src_node_id: dict(r.content["m"]) for r in replies}
        assert counts == {n: {"done": done, "client": n - 1} for n in range(1, 6)}
    assert workers.given == [0, 1, 2, 3, 4] * 2
    done = {client: int(state["done"]) for client, state in states.copy().items()}
    assert done == dict.fromkeys(range(5), 2)
    grid.close()
    assert workers.ended


def test_a_worker_has_its_next_message_before_the_server_has_the_reply() -> None:
    workers = Directed(1, first)
    grid, _ = grid_over(workers, 4)
    for number, _ in enumerate(grid.send_and_receive(to(1, 2, 3, 4)), 1):
        assert len(workers.given) == min(JOBS_PER_WORKER + number, 4)


def test_a_node_answers_one_message_after_the_other() -> None:
    workers = Directed(2, first)
    grid, _ = grid_over(workers, 3)
    replies = list(grid.send_and_receive(to(1, 1, 1, 2)))
    assert sorted(r.content["m"]["done"] for r in replies) == [1, 1, 2, 3]
    assert workers.given == [0, 1, 0, 0]


def test_what_fails_is_a_reply_and_other_messages_are_answered_here() -> None:
    workers = Directed(1, first)
    grid, states = grid_over(workers, 2)
    (failed,) = grid.send_and_receive(to(1, word="fails"))
    assert failed.error.reason.splitlines()[-1].startswith("ValueError: on purpose")
    assert not states.copy()
    (here,) = grid.send_and_receive(to(2, kind="query"))
    assert "here" in here.content and workers.given == [0]
    with pytest.raises(KeyboardInterrupt):
        list(grid.send_and_receive(to(1, word="ctrl-c")))


def test_a_lost_worker_s_message_goes_first_and_nothing_differs() -> None:
    losses = iter([1, 2, 3])

    def act(jobs: list[Job]) -> tuple[Job | None, bool]:
        return jobs[0], bool(next(losses, 0))

    workers = Directed(1, act)
    grid, _ = grid_over(workers, 4)
    replies = list(grid.send_and_receive(to(1, 2, 3, 4)))
    assert workers.given == [0, 1, 0, 1, 0, 2, 3]
    assert [r.content["m"]["done"] for r in replies] == [1] * 4


def test_late_replies_and_those_that_no_worker_began(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = [True]
    workers = Directed(1, lambda jobs: (None if hangs[0] else jobs[0], False))
    grid, states = grid_over(workers, 3)
    asked = to(1, 2, 3)
    assert list(grid.send_and_receive(asked, timeout=0.0)) == []
    names = [message.metadata.message_id for message in asked]
    (late,) = grid.pull_messages(names)
    assert late.error.reason == "the round was over before the client's turn came"
    assert late.metadata.src_node_id == 3 and workers.given == [0, 1]
    hangs[0] = False
    assert list(grid.pull_messages(names[1:2])) and not list(grid.pull_messages(names[1:2]))
    assert sorted(states.copy()) == [0, 1]
    (now,) = grid.send_and_receive(to(3))
    assert now.metadata.src_node_id == 3
    assert list(grid.pull_messages(names[:1]))


def test_a_call_that_is_left_keeps_its_replies_for_later() -> None:
    grid, _ = grid_over(Directed(2, first), 4)
    asked = to(1, 2, 3, 4)
    replies: Any = grid.send_and_receive(asked, timeout=LONG)
    next(replies)
    replies.close()
    assert len(list(grid.pull_messages([m.metadata.message_id for m in asked]))) == 3


def waits(seconds: list[float], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A call of two clients whose waits take so many seconds; 0: a reply comes.

    Returns what is left of them.
    """
    clock, left = [0.0], list(seconds)

    def act(jobs: list[Job]) -> tuple[Job | None, bool]:
        clock[0] += (took := left.pop(0))
        return None if took else jobs[0], False

    monkeypatch.setattr(remote, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    grid, _ = grid_over(Directed(1, act), 2)
    assert len(list(grid.send_and_receive(to(1, 2), timeout=5.0))) == seconds.count(0) - left.count(
        0
    )
    return left


def test_a_call_ends_after_the_timeout_without_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waits([1.0] * 5 + [0.0], monkeypatch) == [0.0]
    assert waits([1.0] * 4 + [0.0] + [1.0] * 4 + [0.0], monkeypatch) == []
    assert waits([1.0] * 4 + [0.0] + [1.0] * 7, monkeypatch) == [1.0, 1.0]


def test_time_in_which_the_process_is_stopped_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that Ctrl-Z held for longer than the timeout went on with fewer clients."""
    assert waits([1.0, LONG, 0.0, LONG, 1.0, 0.0], monkeypatch) == []
