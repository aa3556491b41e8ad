"""The server of an asynchronous strategy: records on a simulated clock, over any engine's grid.

Nothing sleeps. A client's reply follows from the message that it was sent and from its memory, so
that it may be worked out at any moment before it is needed: when the first of the clients at work
is done, all messages that wait go to the grid together. A row of the results is as many updates as
a cohort has: the same work as a synchronous round.

A client goes from record to record (``handlers``): each says what comes next, and when. After a row
a checkpoint holds the records, what is under way on links, and each message or the reply to it.

A client that drops out, or has not answered by the deadline, makes place for another. Without a
deadline the server knows at once that a client has dropped out.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from compressors import State, derive
from compressors.whole.memory import nest, unnest
from fedsim.engines import compat
from fedsim.federation import ledger
from fedsim.federation.clocked import bits_back, bits_down
from fedsim.federation.messages import reply_of, reply_values
from fedsim.federation.orders import START, Work
from fedsim.federation.server import Recorder, Server
from fedsim.federation.timed_grid import DROPPED
from fedsim.federation.trainer import Trainer
from fedsim.federation.updates import Update, merged
from fedsim.ground.errors import RunFailed
from fedsim.network.agenda import Agenda
from fedsim.network.flows import Flows, Link
from fedsim.network.pricing import SECONDS
from fedsim.network.rates import Rate
from fedsim.settings.config import RunConfig
from strategies import Arrival, Asynchronous, RoundTraffic
from strategies.channel.asynchronous_end import KINDS
from strategies.channel.framing import Travel
from strategies.channel.nodes import Without, cohort
from strategies.channel.stored import Stored


@dataclass
class Job:
    """A client at work: its message, its reply once that is worked out, and when what was.

    ``number``: of the message among those to its client; ``fraction``: p, where a controller orders
    it; ``leaves``: when the client drops out; ``silent``: it has; ``overdue``: another was asked in
    its place, for it had not answered in time.
    """

    client: int
    message: Message
    number: int
    iterations: int
    asked: float
    fraction: float = 1.0
    leaves: str = ""
    received: float = 0.0
    trained: float = 0.0
    silent: bool = False
    overdue: bool = False
    reply: Message | None = None

    def values(self) -> dict[str, Any]:
        """As a checkpoint can hold it: the reply, or the message that has none yet."""
        known = tuple(getattr(self, name) for name in _OF_JOBS)
        if self.reply is None:
            return {"job": known, "message": compat.to_bytes(self.message.content)}
        return {"job": known, "reply": reply_values(self.reply)}

    @classmethod
    def of(cls, values: dict[str, Any], nodes: Mapping[int, int]) -> "Job":
        """The way back from ``values``; ``nodes``: where each client is now."""
        known = dict(zip(_OF_JOBS, values["job"], strict=True))
        if "reply" in values:
            message, reply = reply_of(values["reply"])
            return cls(message=message, reply=reply, **known)
        content = compat.from_bytes(values["message"])
        return cls(message=Message(content, nodes[known["client"]], "train"), **known)


_OF_JOBS = tuple(f.name for f in fields(Job) if f.name not in ("message", "reply"))


class EventServer(Server):
    """One run's server, driven by a simulated clock.

    Attributes:
        handlers: what each record does, by its name.

    Raises ``RunFailed`` from ``main`` as ``Server``, and where a client does not answer in time.
    """

    strategy: Asynchronous

    def __init__(self, config: RunConfig, trainer: Trainer, recorder: Recorder) -> None:
        super().__init__(config, trainer, recorder)
        plan = self.plan
        assert plan.network is not None
        self.links = plan.network.links(plan.clients, config.seed, measured=0.0)
        self.framing = plan.network.framing
        self.agenda = Agenda()
        self.flows = Flows(self.agenda, self.rate)
        self.handlers: dict[str, Callable[..., None]] = {
            **self.flows.handlers, "ask": self.begin, "next": self.ask_next, "look": self.look,
            "downloaded": self.downloaded, "received": self.received, "trained": self.trained,
            "answered": self.answered, "uploaded": self.uploaded, "arrived": self.arrive,
            "deadline": self.deadline,
        }  # fmt: skip
        there = plan.rules.availability
        self.presence = None if there is None else there.of(plan.clients, config.seed)
        self._unfilled, self._look = 0, 0.0  # places at work, and when a client may be there
        self._jobs: dict[int, Job] = {}  # by client: at work
        self.arrived: dict[int, float] = {}  # by client: when its last update came
        self._updates: list[Update] = []  # of the row that is not full yet
        self._row_start, self._turns, self._row = 0.0, 0, dict[str, Any]()
        self._clock = time.perf_counter()

    def rate(self, link: Link) -> Rate:
        """A link's rate over time: of a client, ``(way, client)``, or of the server, a text."""
        links = self.links
        ends = {"server up": links.server_up, "server down": links.server_down}
        if isinstance(link, str):
            return Rate.constant(ends[link])
        way, client = link
        return (links.up if way == "up" else links.down)[client]

    def open(self, grid: Grid) -> None:
        """Asks the first clients, or goes on from where the recorder is."""
        plan, roster = self.plan, self.strategy.roster
        assert roster is not None
        self.strategy.open(self.initial)
        with self.failing(self.number + 1):
            roster.gather(grid, plan.clients)
        self.grid, self._nodes = grid, roster.nodes
        self.recorder.resume(self)
        self._hold()
        if self.number:
            return
        if self.presence is None:
            for client in cohort(plan.clients, plan.ask, self.config.seed, 1):
                self.agenda.first("ask", client)
        else:
            for _ in range(plan.ask):
                self.agenda.first("next")

    @property
    def number(self) -> int:
        """How many rows are full."""
        return self.recorder.rounds_done

    def step(self) -> dict[str, Any]:
        """Goes on until a row is full; returns that."""
        self._row = {}
        while not self._row:
            name, *arguments = self.agenda.next()
            self.handlers[name](*arguments)
        return self._row

    def state(self) -> tuple[State, dict[str, Any]]:
        """After a row: everything, with the records and what is under way."""
        tensors, values = self.strategy.state()
        stored = Stored(KINDS)
        values["under way"] = stored.pack(self.under_way())
        return tensors | nest("under-way", stored.tensors), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        self.strategy.restore(tensors, values)
        stored = Stored(KINDS, unnest("under-way", tensors))
        self.go_on(stored.unpack(values["under way"]))

    def under_way(self) -> dict[str, Any]:
        """The clock, and every client at work."""
        return {
            "agenda": self.agenda.state(), "flows": self.flows.state(), "turns": self._turns,
            "jobs": [job.values() for job in self._jobs.values()], "arrived": self.arrived,
            "unfilled": self._unfilled, "look": self._look,
        }  # fmt: skip

    def go_on(self, known: dict[str, Any]) -> None:
        """The way back from ``under_way``."""
        self.agenda.restore(known["agenda"])
        self.flows.restore(known["flows"])
        jobs = (Job.of(job, self._nodes) for job in known["jobs"])
        self._jobs = {job.client: job for job in jobs}
        self.arrived, self._turns = known["arrived"], known["turns"]
        self._unfilled, self._look = known["unfilled"], known["look"]
        self._row_start = self.agenda.now

    def begin(self, client: int) -> None:
        """Sends a client its next message; a reply waits until somebody needs it."""
        content = self.strategy.message(client, self.settings())
        number, rules = self.channel.traffic.round, self.plan.rules
        job = self.job(client, content, self.agenda.now, number)
        leaves = rules.dropout.draw(self.config.seed, number, self.plan.clients)
        job.leaves = str(leaves[client])
        bits = bits_down(self.channel.traffic, client, self.framing)
        self.flows.send(bits, self._down(client), ("downloaded", client))
        if rules.deadline is not None:
            self.agenda.last(rules.deadline, "deadline", client, job.number)

    def ask_next(self) -> None:
        """Asks another client in the place of one."""
        self._unfilled += 1
        self.look()

    def look(self) -> None:
        """Asks as many clients as there are places, as far as somebody is there and idle."""
        while self._unfilled:
            client = self._drawn()
            if client is None:
                return
            self._turns += 1
            self._unfilled -= 1
            self.begin(client)

    def _drawn(self) -> int | None:
        """Who is asked next; None: nobody now, and a record says when to look again."""
        now, turn, presence = self.agenda.now, self._turns + 1, self.presence
        if presence is None:
            idle = Without(self.plan.clients, self._jobs)
            draw = derive(self.config.seed, "next client", turn)
            return idle[draw % len(idle)] if idle else None
        when, client = presence.next(now, self.number + 1, turn, self._jobs)
        if client is None:
            if not self._jobs:
                when, _ = presence.at(now, self.number + 1, 1, 1)  # raises: never
            if when != self._look and math.isfinite(when):
                self._look = when
                self.agenda.at(when, "look")
        return client

    def deadline(self, client: int, number: int) -> None:
        """A client that has not answered a message by now makes place for another."""
        job = self._jobs.get(client)
        if job is None or job.number != number:
            return
        if job.silent:
            self.lose(job)
        else:
            job.overdue = True
            self.ask_next()

    def downloaded(self, client: int) -> None:
        """A message has passed the links."""
        self.agenda.after(float(self.links.latency[client]), "received", client)

    def received(self, client: int) -> None:
        """A client begins to compute."""
        job = self._jobs[client]
        job.received = job.trained = self.agenda.now
        if job.leaves == "before":
            self.drop_out(job)
            return
        seconds = job.iterations * float(self.links.compute[client])
        self.agenda.after(seconds, "trained", client)

    def trained(self, client: int) -> None:
        """A client has computed: its reply is needed now."""
        job = self._jobs[client]
        job.trained = self.agenda.now
        reply = self.reply(job)
        if job.leaves and reply.has_content():
            self.strategy.loses(client)
            self.drop_out(job)
        elif self.framing:  # the server says which objects it lacks, before they are sent
            self.flows.send(self._back(job).down, self._down(client), ("answered", client))
        else:
            self.answered(client)

    def answered(self, client: int) -> None:
        """A client begins to send."""
        up = self._back(self._jobs[client]).up
        self.flows.send(up, (("up", client), "server up"), ("uploaded", client))

    def uploaded(self, client: int) -> None:
        """A reply has passed the links."""
        self.agenda.after(float(self.links.latency[client]), "arrived", client)

    def drop_out(self, job: Job) -> None:
        """A client sends nothing, which the server knows at the deadline; without one, at once."""
        job.silent = True
        if job.overdue or self.plan.rules.deadline is None:
            self.lose(job)

    def lose(self, job: Job) -> None:
        """Books that a client has dropped out."""
        compat.name(job.message, f"dropped-{job.client}-{job.number}")
        error = Error(ErrorCode.NODE_UNAVAILABLE, DROPPED[job.leaves])
        self._take(job, Message(error, reply_to=job.message))

    def arrive(self, client: int) -> None:
        """A reply is there; then the next client is asked."""
        job = self._jobs[client]
        self._take(job, self.reply(job))

    def _take(self, job: Job, reply: Message) -> None:
        with self.failing(self.number + 1):
            arrival = self.strategy.arrive(job.client, reply, job.overdue and not job.silent)
        # Before the row, whose checkpoint holds it; who is overdue has made place before.
        self.agenda.first("look" if job.overdue else "next")
        self.came(job, [arrival])

    def _down(self, client: int) -> tuple[Link, Link]:
        return ("down", client), "server down"

    def _back(self, job: Job) -> Travel:
        asked = self.strategy.asked(job.client)
        return bits_back(asked, job.client, self.reply(job), self.framing)

    def settings(self) -> ConfigRecord:
        """What stands beside a message that is sent now: its iterations, for a schedule the run's.

        A message's number counts those to its client, and no schedule goes by that.
        """
        settings = {"iterations": self.plan.local_iterations(self.number + 1)}
        if self.work.ordering:
            return self.work.begin(self.number + 1, self.agenda.now)
        if self.plan.task.lr_steps:
            settings[START] = self.plan.iterations_after(self.number)
        return ConfigRecord(dict(settings))

    def job(self, client: int, content: RecordDict, asked: float, number: int = 0) -> Job:
        """A client that is at work from now on, with a message that it was sent at ``asked``."""
        message = Message(content, self._nodes[client], "train")
        work = self.work.work.get(client)
        count = work.n if work else self.plan.local_iterations(self.number + 1)
        fraction = work.p if work else 1.0
        self._jobs[client] = Job(client, message, number, count, asked, fraction)
        return self._jobs[client]

    def reply(self, job: Job) -> Message:
        """What a client answers: all that are at work answer now, if it has not yet."""
        if job.reply is None:
            waiting = {
                job.client: job for job in self._jobs.values()
                if job.reply is None and job.leaves != "before"
            }  # fmt: skip
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
        now = self.agenda.now
        rest = (0.0, now - job.trained) if job.silent else (now - job.trained, 0.0)
        times = (job.received - job.asked, job.trained - job.received, *rest)
        work = Work(job.iterations, job.fraction, 0)
        self._updates.append(Update(job.client, work, arrivals, own, times, now, job.overdue))
        self._jobs.pop(job.client)
        self.arrived[job.client] = now
        if len(self._updates) < self.plan.cohort:
            return
        channel, number = self.channel, self.number + 1
        traffic = merged(number, self._updates)
        traffic.begun = self.begun()
        if len(traffic.uplinks) < self.plan.required:
            raise RunFailed(
                f"round {number}: {len(traffic.uplinks)} of {self.plan.cohort} updates can be used "
                f"and {self.plan.required} are required; {next(iter(traffic.failures.values()))}"
                f"{self._far}"
            )
        channel.traffic = traffic
        self.work.close(number, self.works(traffic).values())
        self._row = self.book(number, self._clock)
        self._updates, self._row_start = [], now
        self._clock = time.perf_counter()

    def works(self, traffic: RoundTraffic) -> Mapping[int, Work]:
        return {place: update.work for place, update in enumerate(self._updates)}

    def keys(self, rows: list[dict[str, Any]]) -> list[int]:
        return [*range(len(rows))]

    def begun(self) -> list[RoundTraffic]:
        """What has come of updates of which other parts are still under way."""
        return []

    def rows(self, row: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """With them how old the models were that updates were made from."""
        updates, now = self._updates, self.agenda.now
        used = [updates[place] for place in self.channel.traffic.uplinks]
        means = np.mean([update.seconds for update in used] or [[math.nan] * len(SECONDS)], axis=0)
        row |= dict(zip(SECONDS, means.tolist(), strict=True))
        row |= {"sim_seconds": now - self._row_start, "sim_end_seconds": now}
        stale = [update.staleness for update in used]
        row["staleness"] = float(np.mean(stale)) if stale else math.nan
        row |= {"version": self.strategy.steps, "staleness_max": max(stale, default=0)}
        row |= {"buffered": self.strategy.buffered}
        by_deadline = self.plan.rules.deadline is not None
        row |= {"overdue": sum(update.overdue for update in updates)} if by_deadline else {}
        did = [update.work.n for update in used]
        row["used_iterations"] = sum(did) / len(did) if did else 0.0
        rows = ledger.client_rows(self.channel.traffic)
        return row | {"in_flight": len(self._jobs)}, [
            {**client, "client": update.client, "message": update.messages[0].round,
             "staleness": update.staleness, **dict(zip(SECONDS, update.seconds, strict=True)),
             "sim_end_seconds": update.end,
             **({"overdue": int(update.overdue)} if by_deadline else {})}
            for client, update in zip(rows, updates, strict=True)
        ]  # fmt: skip
