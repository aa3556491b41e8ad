"""Drawn federations, round by round, killed and resumed between rounds, checked after each round.

A round's bits are the lengths of its payloads; applied + residual + pending + lost = trained, for
each client; a client that follows holds the server's model; and a run that was never stopped ends
with the same rows, digests included.
"""

import logging
import os
from copy import deepcopy
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from torch import Tensor

from compressors import decompress
from compressors.whole.memory import unnest
from fedsim import Federation, RunConfig, Task
from fedsim.federation.orders import residual_of
from strategies import ClientEnd
from strategies.channel.acknowledge import PAYLOAD_KEPT, ROUND_KEPT
from strategies.channel.directions import moved
from strategies.channel.payload import VERSION
from tests.support.owntasks import MODEL, holding
from tests.support.searching import TINY

MANY = int(os.environ.get("FEDSIM_FEDERATIONS", "500"))
"""Federations of the long test."""

TASK = Task(
    **{f: getattr(TINY, f) for f in ("loss", "metric", "optimizer")},
    **holding(),
    name="tiny_whole",
    build=lambda: deepcopy(MODEL),
    batch_size=4,
    iterations=12,
    clients=3,
    channels_last=False,
)
METHODS = (
    "gradient_dropping(0.3)",
    "sbc(0.4)",
    "ef(flat(topk(0.3) | cnat | golomb))",
    "stc(0.3)",
    "ef(cnat)",
    "raw",
    "cnat",
)
DOWNLINKS = ("raw", "sbc(0.5)", "ef(per_tensor(topk(0.5) | float32 | golomb))")
Sums = dict[str, Tensor]


@st.composite
def configs(draw: Any) -> RunConfig:
    """A run of four to eight rounds."""
    clients = draw(st.integers(1, 4))
    n = draw(st.integers(1, 3))
    return RunConfig.of(
        task=TASK,
        clients=clients,
        cohort=draw(st.integers(1, clients)),
        temporal=n,
        iterations=n * draw(st.integers(4, 8)),
        method=draw(st.sampled_from(METHODS)),
        downlink=draw(st.sampled_from(DOWNLINKS)),
        catch_up=False,
        seed=draw(st.integers(0, 9)),
        partition=draw(st.sampled_from(("iid", "contiguous", "dirichlet(0.5)"))),
        strategy=draw(st.sampled_from(("dsgd", "dsgd(weighting=samples)", "nesterov", "fedavgm"))),
        dropout=draw(st.sampled_from((0, "before=0.3", "after=0.3", "before=0.2, after=0.2"))),
        evaluate_every=draw(st.integers(1, 3)),
    )


class Federations(RuleBasedStateMachine):
    """One federation, with the books of what each client has trained and what was applied."""

    def __init__(self) -> None:
        super().__init__()
        self.trained: dict[int, Sums] = {}
        self.used: dict[int, Sums] = {}
        self.saved: list[tuple[Any, ...]] = []
        self.patch, machine, encode = pytest.MonkeyPatch(), self, ClientEnd.encode

        def counting(end: ClientEnd, client: Any, update: Any, delivery: Any) -> Any:
            _add(machine.trained, int(client), update)
            return encode(end, client, update, delivery)

        self.patch.setattr(ClientEnd, "encode", counting)

    @initialize(config=configs())
    def begin(self, config: RunConfig) -> None:
        logging.getLogger("flwr").setLevel(logging.ERROR)
        self.config, self.federation = config, Federation(config)
        self.trained.clear()  # of messages that were answered on trial

    def teardown(self) -> None:
        try:
            if hasattr(self, "federation"):
                self.ends_as_never_stopped()
        finally:
            self.patch.undo()

    def ends_as_never_stopped(self) -> None:
        while not self.federation.done:
            self.round()
        rows = _plain(self.federation.rounds), _plain(self.federation.clients)
        self.federation.close()
        with Federation(self.config) as again:
            while not again.done:
                again.round()
            pd.testing.assert_frame_equal(rows[0], _plain(again.rounds), check_exact=True)
            pd.testing.assert_frame_equal(rows[1], _plain(again.clients), check_exact=True)

    @precondition(lambda self: not self.federation.done)
    @rule()
    def round(self) -> None:
        known, version = len(self.federation.clients), self.end.version
        row = self.federation.round()
        traffic, clients = self.end.traffic, self.federation.clients.iloc[known:]
        used = clients.set_index("client")["up_wire_bits"].to_dict()
        for client, up in traffic.uplinks.items():
            assert used[client] == 8 * len(up.payload)
            if self.end.version > version:
                _add(self.used, client, up.update)
        assert row["up_wire_bits"] == sum(8 * len(up.payload) for up in traffic.uplinks.values())
        self.check_conserved()
        self.check_models()

    @rule()
    def save(self) -> None:
        books = deepcopy((self.trained, self.used))
        if self.end.version:
            self.saved.append((self.federation.state(), books))

    @precondition(lambda self: bool(self.saved))
    @rule(data=st.data())
    def kill(self, data: Any) -> None:
        """Everything since a checkpoint is gone, and the run goes on from there."""
        state, books = data.draw(st.sampled_from(self.saved))
        self.federation.close()
        self.federation = Federation(self.config, state)
        self.trained, self.used = deepcopy(books)

    @property
    def end(self) -> Any:
        return self.federation._server.strategy.end

    @property
    def memories(self) -> Any:
        return self.federation._records.states.copy()  # type: ignore[union-attr]

    def check_conserved(self) -> None:
        """For methods with a residual; what others lose is counted in the rows."""
        method = self.config.plan.method.compressor
        for client, memory in self.memories.items():
            held = residual_of(method, memory)
            if not held:
                continue
            parts: list[Sums] = [{n: x.double() for n, x in held.items()}]
            parts += [self.used[client]] if client in self.used else []
            if int(memory[ROUND_KEPT]) != self.end.applied.get(client) and PAYLOAD_KEPT in memory:
                payload = memory[PAYLOAD_KEPT].numpy().tobytes()
                parts.append(decompress(method, payload, self.end.weights))
            for name, x in self.trained[client].items():
                total = sum(part[name].double() for part in parts)
                torch.testing.assert_close(total, x, rtol=1e-5, atol=1e-5)

    def check_models(self) -> None:
        """What a client holds, moved by the last update, is the server's model, bit for bit."""
        if not self.end.follows:
            return
        for client, memory in self.memories.items():
            base = unnest("base", memory)
            if base and self.end.policy.last and int(memory[VERSION]) == self.end.version - 1:
                payload = self.end.policy.last.payload
                after = moved(base, decompress(self.end.downlink, payload, self.end.weights))
                for name, x in self.end.weights.items():
                    assert torch.equal(after[name], x), (client, name)


def _add(books: dict[int, Sums], client: int, update: Any) -> None:
    before = books.get(client, {})
    books[client] = {n: x.double() + before.get(n, 0) for n, x in update.items()}


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[[c for c in frame.columns if not c.endswith("seconds")]]


_HOW: dict[str, Any] = {
    "deadline": None,
    "stateful_step_count": 12,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
_LONG = settings(max_examples=MANY, **_HOW)


class TestSome(Federations.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=12, derandomize=True, **_HOW)
    pytestmark = [pytest.mark.slow]


class TestMany(Federations.TestCase):  # type: ignore[name-defined,misc]
    settings = _LONG
    pytestmark = [pytest.mark.slow, pytest.mark.proof]
