"""What a recorder asks of CUDA, with a stand-in for its streams and graphs: no GPU is there."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
import torch

from fedsim.federation.recorder import STREAMS, GraphRecorder, NotRecorded, recorder_on


class Stream:
    """A stream with a number, which notes what it waits for."""

    def __init__(self, cuda: "Cuda") -> None:
        self.number, self._cuda = len(cuda.streams), cuda
        cuda.streams.append(self)

    def wait_stream(self, other: "Stream") -> None:
        if self._cuda.fails and self._cuda.streams[1] is self:  # what joins a capture
            raise RuntimeError("operation failed due to a previous error during capture")
        self._cuda.events.append(f"{self.number} waits for {other.number}")


class Graph:
    """A graph that counts its repeats."""

    def __init__(self, cuda: "Cuda") -> None:
        self.generators: list[Any] = []
        self.repeats = 0
        self._cuda = cuda

    def register_generator_state(self, generator: Any) -> None:
        self.generators.append(generator)
        self._cuda.events.append("registers")

    def replay(self) -> None:
        self.repeats += 1


class Cuda:
    """What there is of ``torch.cuda``; stream 0 is the current one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.streams: list[Stream] = []
        self.events: list[str] = []
        self.graphs: list[Graph] = []
        self.modes: list[Any] = []
        self.fails = False
        current = Stream(self)
        patch.setattr(torch.cuda, "Stream", lambda: Stream(self))
        patch.setattr(torch.cuda, "current_stream", lambda: current)
        pools = count()
        patch.setattr(torch.cuda, "graph_pool_handle", lambda: f"pool {next(pools)}")
        patch.setattr(torch.cuda, "synchronize", lambda device: None)
        patch.setattr(torch.cuda, "empty_cache", lambda: None)
        patch.setattr(torch.cuda, "device", self.on)
        patch.setattr(torch.cuda, "stream", lambda stream: self.on(f"stream {stream.number}"))
        patch.setattr(torch.cuda, "CUDAGraph", self.make)
        patch.setattr(torch.cuda, "graph", self.capture)

    @contextmanager
    def on(self, place: Any) -> Iterator[None]:
        self.events.append(f"on {place}")
        yield

    def make(self) -> Graph:
        self.graphs.append(Graph(self))
        return self.graphs[-1]

    @contextmanager
    def capture(self, graph: Graph, pool: Any, stream: Stream, **more: Any) -> Iterator[None]:
        self.modes.append((pool, stream.number, more))
        try:
            yield
        finally:
            if self.fails:  # as the end of a capture does after an error in it
                raise RuntimeError("operation failed due to a previous error during capture")


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    return Cuda(monkeypatch)


DEVICE = torch.device("cuda", 0)


def test_every_client_has_a_stream_that_leaves_and_joins(cuda: Cuda) -> None:
    recorder = recorder_on(DEVICE)
    assert isinstance(recorder, GraphRecorder)
    cuda.events.clear()
    recorder.run([lambda: cuda.events.append("a"), lambda: cuda.events.append("b")])
    assert cuda.events == [
        "on cuda:0",
        *("2 waits for 0", "on stream 2", "a"),
        *("3 waits for 0", "on stream 3", "b"),
        *("0 waits for 2", "0 waits for 3"),
    ]


def test_more_clients_than_streams_take_turns(cuda: Cuda) -> None:
    recorder, order = GraphRecorder(DEVICE), list[int]()
    recorder.run([lambda i=i: order.append(i) for i in range(STREAMS + 2)])  # type: ignore[misc]
    assert order[:4] == [0, STREAMS, 1, STREAMS + 1] and len(order) == STREAMS + 2


def test_a_step_is_recorded_once_and_repeated(cuda: Cuda) -> None:
    recorder, steps = GraphRecorder(DEVICE), list[int]()
    generator = torch.Generator()
    cuda.events.clear()
    repeat = recorder.record([lambda: steps.append(0), lambda: steps.append(1)], [generator])
    for _ in range(3):
        repeat()
    (graph,) = cuda.graphs
    assert (steps, graph.generators, graph.repeats) == ([0, 1], [generator], 3)
    assert cuda.modes == [("pool 0", 1, {"capture_error_mode": "thread_local"})]
    assert cuda.events[-1] == "on cuda:0"  # a graph runs where its clients are
    assert cuda.events[:2] == ["on cuda:0", "registers"]  # as does what torch allocates for that


def test_freed_memory_is_no_pool_of_later_records(cuda: Cuda) -> None:
    """torch refuses one whose graphs are gone and where a tensor lies."""
    recorder = GraphRecorder(DEVICE)
    for _ in range(2):
        recorder.record([lambda: None], ())
    recorder.free()
    recorder.record([lambda: None], ())
    assert [pool for pool, *_ in cuda.modes] == ["pool 0", "pool 0", "pool 1"]


@pytest.mark.parametrize("full", [False, True])
def test_a_record_that_fails_has_the_step_s_reason(full: bool, cuda: Cuda) -> None:
    """Joins and the end of the capture raise, too; a full device is halved for."""
    error = torch.cuda.OutOfMemoryError("full") if full else ValueError("a value was read")

    def fails() -> None:
        raise error

    cuda.fails = True
    with pytest.raises(type(error) if full else NotRecorded) as caught:
        GraphRecorder(DEVICE).record([lambda: None, fails], ())
    assert caught.value is error or caught.value.__cause__ is error


def test_clients_of_which_one_fails_are_joined(cuda: Cuda) -> None:
    """Memory that the others read must not be used anew before they are done."""

    def fails() -> None:
        raise ValueError("not finite")

    with pytest.raises(ValueError, match="not finite"):
        GraphRecorder(DEVICE).run([lambda: None, fails])
    assert cuda.events[-2:] == ["0 waits for 2", "0 waits for 3"]
