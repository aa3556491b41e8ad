"""The server of an asynchronous strategy: events on a simulated clock, over any engine's grid.

Nothing sleeps. A client's reply follows from the message that it was sent and from its memory, so
that it may be worked out at any moment before it is needed: when the first of the clients at work
is done, all messages that wait go to the grid together. A row of the results is as many updates as
clients are at work at once (the cohort): the same work as a synchronous round.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from compressors import derive
from fedsim.federation import ledger
from fedsim.federation.clocked import bits_back, bits_down
from fedsim.federation.orders import START
from fedsim.federation.server import Recorder, Server
from fedsim.federation.trainer import Trainer
from fedsim.federation.updates import Update, merged
from fedsim.ground.errors import RunFailed
from fedsim.network.flows import Flows
from fedsim.network.pricing import SECONDS
from fedsim.network.rates import Rate
from fedsim.settings.config import RunConfig
from strategies import Arrival, Asynchronous, RoundTraffic
from strategies.channel.nodes import Without, cohort

Process = simpy.events.ProcessGenerator


@dataclass
class Job:
    """A client at work: its message, its reply once that is worked out, and when what was."""

    client: int
    message: Message
    iterations: int
    asked: float
    received: float = 0.0
    trained: float = 0.0
    reply: Message | None = None


class EventServer(Server):
    """One run's server, driven by a simulated clock.

    Raises ``RunFailed`` from ``main`` as ``Server``, and where a client does not answer in time.
    """

    strategy: Asynchronous

    def __init__(self, config: RunConfig, trainer: Trainer, recorder: Recorder) -> None:
        super().__init__(config, trainer, recorder)
        plan = self.plan
        assert plan.network is not None
        self.links = plan.network.links(plan.clients, config.seed, measured=0.0)
        self.framing = plan.network.framing
        self.env = simpy.Environment()
        self.flows = Flows(self.env, self.rate)
        self.over = self.env.event()
        self._jobs: dict[int, Job] = {}  # by client: at work
        self.arrived: dict[int, float] = {}  # by client: when its last update came
        self._updates: list[Update] = []  # of the row that is not full yet
        self.number, self._row_start, self._turns = 0, 0.0, 0
        self._clock = time.perf_counter()

    def rate(self, link: Any) -> Rate:
        """A link's rate over time: of a client, ``(way, client)``, or of the server, a text."""
        links = self.links
        ends = {"server up": links.server_up, "server down": links.server_down}
        if link in ends:
            return Rate.constant(ends[link])
        way, client = link
        return (links.up if way == "up" else links.down)[client]

    def open(self, grid: Grid) -> None:
        """Asks the first clients; there is no checkpoint to go on from."""
        plan, roster = self.plan, self.strategy.roster
        assert roster is not None
        self.strategy.open(self.initial)
        with self.failing(1):
            roster.gather(grid, plan.clients)
        self.grid, self._nodes = grid, roster.nodes
        for client in cohort(plan.clients, plan.cohort, self.config.seed, 1):
            self.env.process(self.serve(client))

    @property
    def done(self) -> bool:
        return self.over.triggered

    def step(self) -> dict[str, Any]:
        """Goes on until a row is full; returns that."""
        self._full = self.env.event()
        row = self.env.run(until=self._full)
        assert row is not None
        return dict(row)

    def serve(self, client: int) -> Process:
        """A client from its message to its reply; then the next client is asked."""
        env, flows, delay = self.env, self.flows, float(self.links.latency[client])
        job = self.ask(client)
        traffic, framing = self.channel.traffic, self.framing
        down, up = (("down", client), "server down"), (("up", client), "server up")
        yield flows.send(bits_down(traffic, client, framing), down)
        yield env.timeout(delay)
        yield from self.train(job)
        reply = self.reply(job)
        back = bits_back(traffic, client, reply, framing)
        if framing:  # the server says which objects it lacks, before they are sent
            yield flows.send(back.down, down)
        yield flows.send(back.up, up)
        yield env.timeout(delay)
        if self.over.triggered:  # at this very moment, by another client
            return
        with self.failing(self.number + 1):
            arrival = self.strategy.arrive(client, reply)
        self.came(job, [arrival])
        if not self.over.triggered:
            idle = Without(self.plan.clients, self._jobs)
            self._turns += 1
            drawn = derive(self.config.seed, "next client", self._turns) % len(idle)
            env.process(self.serve(idle[drawn]))

    def ask(self, client: int) -> Job:
        """The next message to a client; it waits until somebody needs a reply."""
        content = self.strategy.message(client, self.settings())
        return self.job(client, content, self.env.now)

    def settings(self) -> ConfigRecord:
        """What stands beside a message that is sent now: its iterations, for a schedule the run's.

        A message's number counts those to its client, and no schedule goes by that.
        """
        settings = {"iterations": self.plan.local_iterations(self.number + 1)}
        if self.plan.task.lr_steps:
            settings[START] = self.plan.iterations_after(self.number)
        return ConfigRecord(dict(settings))

    def job(self, client: int, content: RecordDict, asked: float) -> Job:
        """A client that is at work from now on, with a message that it was sent at ``asked``."""
        message = Message(content, self._nodes[client], "train")
        count = self.plan.local_iterations(self.number + 1)
        self._jobs[client] = Job(client, message, count, asked)
        return self._jobs[client]

    def train(self, job: Job) -> Process:
        """The time that a client computes."""
        job.received = self.env.now
        yield self.env.timeout(job.iterations * float(self.links.compute[job.client]))
        job.trained = self.env.now

    def reply(self, job: Job) -> Message:
        """What a client answers: all that are at work answer now, if it has not yet."""
        if job.reply is None:
            waiting = {job.client: job for job in self._jobs.values() if job.reply is None}
            asked = [waiting[client].message for client in sorted(waiting)]
            timeout = self.config.machine.timeout
            replies = list(self.grid.send_and_receive(asked, timeout=timeout))
            ids = {job.message.metadata.message_id: job for job in waiting.values()}
            for reply in replies:
                ids[reply.metadata.reply_to_message_id].reply = reply
        if job.reply is None:
            raise RunFailed(f"client {job.client} did not answer in {timeout:g} s")
        return job.reply

    def came(self, job: Job, arrivals: Sequence[Arrival], own: int | None = None) -> None:
        """Books an update that has arrived; a row that is full with it is written."""
        now = self.env.now
        times = (job.received - job.asked, job.trained - job.received, now - job.trained, 0.0)
        self._updates.append(Update(job.client, job.iterations, arrivals, own, times, now))
        self._jobs.pop(job.client)
        self.arrived[job.client] = now
        if len(self._updates) < self.plan.cohort:
            return
        channel, number = self.channel, self.number + 1
        traffic = merged(number, self._updates)
        traffic.begun = self.begun()
        if len(traffic.uplinks) < self.plan.min_replies:
            raise RunFailed(
                f"round {number}: {len(traffic.uplinks)} of {self.plan.cohort} updates can be used "
                f"and {self.plan.min_replies} are required; {next(iter(traffic.failures.values()))}"
                f"{self._far}"
            )
        channel.traffic = traffic
        self.work.begin(number, self.env.now)
        row = self.book(number, self._clock)
        self._updates, self.number, self._row_start = [], number, self.env.now
        self._clock = time.perf_counter()
        if self.plan.ends(self.plan.iterations_after(number), self.recorder.spent):
            self.over.succeed()
        self._full.succeed(row)

    def begun(self) -> list[RoundTraffic]:
        """What has come of updates of which other parts are still under way."""
        return []

    def rows(self, row: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """With them how old the models were that updates were made from."""
        updates, now = self._updates, self.env.now
        means = np.mean([update.seconds for update in updates], axis=0)
        row |= dict(zip(SECONDS, means.tolist(), strict=True))
        row |= {"sim_seconds": now - self._row_start, "sim_end_seconds": now}
        stale = [update.staleness for update in updates]
        row |= {"version": self.strategy.steps, "staleness": float(np.mean(stale))}
        row |= {"staleness_max": max(stale), "buffered": self.strategy.buffered}
        did = [updates[place].iterations for place in self.channel.traffic.uplinks]
        row["used_iterations"] = sum(did) / len(did) if did else 0.0
        rows = ledger.client_rows(self.channel.traffic)
        return row | {"in_flight": len(self._jobs)}, [
            {**client, "client": update.client, "message": update.messages[0].round,
             "staleness": update.staleness, **dict(zip(SECONDS, update.seconds, strict=True)),
             "sim_end_seconds": update.end}
            for client, update in zip(rows, updates, strict=True)
        ]  # fmt: skip
