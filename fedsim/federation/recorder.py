"""One step of several clients: carried out at once, or recorded once and repeated.

On CUDA a recorded step is a graph whose branches are the clients. The host starts it by one call,
in the place of some forty kernels per client, and small kernels of several clients run at the same
time. The kernels are those of a client that trains by itself, so that its bits are, too.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

import torch

from fedsim.ground.threads import lock_of_process

STREAMS = 16  # clients of a graph that run at once; 8, 16, 32 and 64 were equally fast, to 10 %

ClientStep = Callable[[], None]  # a step of one client, on tensors that stay where they are


class NotRecorded(Exception):
    """A step that cannot be recorded; its cause has the reason."""


class StepRecorder:
    """Carries out steps of several clients, or records them; as a CPU does, one after the other.

    Example:
        >>> steps = []
        >>> again = StepRecorder().record([lambda: steps.append(0), lambda: steps.append(1)], ())
        >>> again()
        >>> steps
        [0, 1]
    """

    def run(self, works: Sequence[ClientStep]) -> None:
        """Carries out a step of each client."""
        for work in works:
            work()

    def record(
        self, works: Sequence[ClientStep], generators: Iterable[torch.Generator]
    ) -> ClientStep:
        """The step of all clients, recorded and not carried out; a call repeats it.

        ``run`` has carried out such a step of each before. ``generators``: from which the steps
        draw; a repeated step goes on from their states then. Raises ``NotRecorded``.
        """
        return partial(self.run, works)

    def free(self) -> None:
        """Frees memory that no tensor and no recorded step takes any more."""


_CAPTURING = lock_of_process()  # a process captures one graph at a time


class GraphRecorder(StepRecorder):
    """Steps of a GPU: a stream per client, up to ``STREAMS``, that all run at once.

    Graphs share one pool of memory, because nothing that lies there is read by a later step.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        with torch.cuda.device(device):
            self._main = torch.cuda.Stream()
            self._streams = [torch.cuda.Stream() for _ in range(STREAMS)]
            self._pool = torch.cuda.graph_pool_handle()

    def run(self, works: Sequence[ClientStep]) -> None:
        with torch.cuda.device(self._device):
            self._run_from(torch.cuda.current_stream(), works)

    def _run_from(self, origin: torch.cuda.Stream, works: Sequence[ClientStep]) -> None:
        """Carries out the works in streams that leave ``origin`` and join it again."""
        streams = self._streams[: len(works)]
        try:
            for i, stream in enumerate(streams):
                stream.wait_stream(origin)
                with torch.cuda.stream(stream):
                    for work in works[i :: len(streams)]:
                        work()
        except BaseException:
            with suppress(RuntimeError):  # a capture that has failed refuses to be joined
                _join(origin, streams)
            raise
        _join(origin, streams)

    def record(
        self, works: Sequence[ClientStep], generators: Iterable[torch.Generator]
    ) -> ClientStep:
        graph, causes = torch.cuda.CUDAGraph(), list[Exception]()
        try:
            with _CAPTURING, torch.cuda.device(self._device):
                for generator in generators:  # whose seed and count lie on the current device
                    graph.register_generator_state(generator)
                # "thread_local": other threads, such as the server's, allocate meanwhile
                capture = torch.cuda.graph(
                    graph, self._pool, self._main, capture_error_mode="thread_local"
                )
                with capture:
                    try:
                        self._run_from(self._main, works)
                    except Exception as error:  # the end of a capture that failed raises, too
                        causes.append(error)
                        raise
        except Exception as error:
            cause = [*causes, error][0]
            if isinstance(cause, torch.cuda.OutOfMemoryError):
                raise cause from None
            raise NotRecorded from cause
        return partial(self._replay, graph)

    def _replay(self, graph: torch.cuda.CUDAGraph) -> None:
        with torch.cuda.device(self._device):
            graph.replay()

    def free(self) -> None:
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()
        # A pool without a graph cannot be used again while a tensor lies there, a gradient.
        self._pool = torch.cuda.graph_pool_handle()


def _join(origin: torch.cuda.Stream, streams: Sequence[torch.cuda.Stream]) -> None:
    """Has ``origin`` wait for all of the streams."""
    for stream in streams:
        origin.wait_stream(stream)


def recorder_on(device: torch.device) -> StepRecorder:
    """The recorder for steps on a device."""
    return GraphRecorder(device) if device.type == "cuda" else StepRecorder()
