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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from compressors import derive
from fedsim.engines import compat
from fedsim.federation import ledger
from fedsim.federation.failures import DROPPED
from fedsim.federation.inflight import InFlight, bits_back, bits_down
from fedsim.federation.orders import START, Work
from fedsim.federation.server import Recorder, Server
from fedsim.federation.trainer import Trainer
from fedsim.federation.updates import Update, merge_updates
from fedsim.ground.errors import RunFailed
from fedsim.ground.records import (
    AsynchronousClient,
    AsynchronousRound,
    ClientRecord,
    SimulatedTime,
    TimeParts,
)
from fedsim.network.clock import PARTS, Clock
from fedsim.settings.config import RunConfig
from strategies import Arrival, Asynchronous, RoundTraffic
from strategies.channel.nodes import Without, cohort


class EventServer(Server):
    """One run's server, driven by a simulated clock.

    Attributes:
        clock: with the clients at work.

    Raises ``RunFailed`` from ``main`` as ``Server``, and where a client does not answer in time.
    """

    strategy: Asynchronous

    def __init__(self, config: RunConfig, trainer: Trainer, recorder: Recorder) -> None:
        super().__init__(config, trainer, recorder)
        plan = self.plan
        assert self.network is not None
        links = self.network.links(plan.clients, config.seed, measured=0.0)
        self.clock: Clock[InFlight] = Clock(links, trained=self.trained)
        self.framing, self.agenda = self.network.framing, self.clock.agenda
        self.clock.handlers |= {
            "ask": self.begin,
            "next": self.ask_next,
            "look": self.look,
            "deadline": self.deadline,
        }
        availability = plan.rules.availability
        self.presence = None if availability is None else availability.of(plan.clients, config.seed)
        self._unfilled, self._look = 0, 0.0  # places at work, and when a client may be there
        self._updates: list[Update] = []  # of the row that is not full yet
        self._row_start, self._turns, self._row = 0.0, 0, dict[str, Any]()
        self._registered = 0.0  # joules of what the sampler asked clients for, of the first row
        self._clock = time.perf_counter()

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
        if self.sampling is not None:
            registered = self.sampling.register(self.clock, True)
            if self.spending is not None:
                self._registered = sum(map(self.spending.charge, registered))
        if self.presence is None:
            for client in self._first():
                self.agenda.first("ask", client)
        else:
            for _ in range(plan.ask):
                self.agenda.first("next")

    def _first(self) -> Sequence[int]:
        """Whom a server asks first that can ask everybody."""
        clients, count = self.plan.clients, self.plan.ask
        if self.sampling is None:
            return cohort(clients, count, self.config.seed, 1)
        return self.sampling.draw(0, 1, range(clients), count, self.agenda.now)

    @property
    def number(self) -> int:
        """How many rows are full."""
        return self.recorder.rounds_done

    def step(self) -> dict[str, Any]:
        """Goes on until a row is full; returns that."""
        self._row = {}
        while not self._row:
            ended = self.clock.step()
            if ended is not None:
                self.over(ended)
        return self._row

    @property
    def jobs(self) -> dict[int, InFlight]:
        """By client: at work."""
        return self.clock.exchanges

    def under_way(self) -> dict[str, Any]:
        """The clock, and every client at work."""
        return {
            "clock": self.clock.state(),
            "turns": self._turns,
            "exchanges": [job.values() for job in self.jobs.values()],
            "unfilled": self._unfilled,
            "look": self._look,
        }

    def go_on(self, state: dict[str, Any]) -> None:
        jobs = [InFlight.of(job, self._nodes) for job in state["exchanges"]]
        self.clock.restore(state["clock"], jobs)
        self._turns, self._unfilled, self._look = (
            state[name] for name in ("turns", "unfilled", "look")
        )
        self._row_start = self.agenda.now

    def begin(self, client: int) -> None:
        """Sends a client its next message; a reply waits until somebody needs it."""
        content = self.strategy.message(client, self.settings())
        job = self.job(client, self.channel.traffic.round, content)
        job.down_bits = bits_down(self.channel.traffic, client, self.framing)
        self.clock.send([job])

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
        """The client to ask next; None: nobody now, and an event checks again later."""
        now, turn, presence = self.agenda.now, self._turns + 1, self.presence
        depleted = [] if self.spending is None else self.spending.empty
        if presence is None:
            idle = Without(self.plan.clients, {*self.jobs, *depleted})
            if self.sampling is not None:
                return self._by_sampler(turn, idle)
            draw = derive(self.config.seed, "next client", turn)
            return idle[draw % len(idle)] if idle else None
        if self.sampling is None:
            when, client = presence.next(now, self.number + 1, turn, self.jobs, depleted)
        else:
            client = self._by_sampler(
                turn, presence.idle(now, self.number + 1, self.jobs, depleted)
            )
            when = now if client is not None else presence.next_change(now)
        if client is None:
            if not self.jobs:  # raises: never
                when, _ = presence.at(now, self.number + 1, 1, 1, excluded=depleted)
            if when != self._look and math.isfinite(when):
                self._look = when
                self.agenda.at(when, "look")
        return client

    def _by_sampler(self, turn: int, idle: Sequence[int] | np.ndarray) -> int | None:
        """Whom of those that can be asked the sampler draws; None where there is nobody."""
        assert self.sampling is not None
        drawn = self.sampling.draw(turn, self.number + 1, idle, 1, self.agenda.now)
        return drawn[0] if drawn else None

    def deadline(self, client: int, number: int) -> None:
        """A client that has not answered a message by now makes place for another."""
        job = self.jobs.get(client)
        if job is None or job.number != number:
            return
        if job.silent:
            self.lose(job)
        else:
            job.overdue = True
            self.ask_next()

    def trained(self, job: InFlight) -> None:
        """A client has computed: its reply is needed now."""
        reply = self.reply(job)
        if job.leaves and reply.has_content():
            self.strategy.loses(job.client)
            job.until = "trained"
        else:  # with framing the server says which objects it lacks, before they are sent
            traffic = self.strategy.traffic_of(job.client)
            job.answer_bits, job.up_bits = bits_back(traffic, job.client, reply, self.framing)

    def over(self, job: InFlight) -> None:
        """A reply is there; or a client drops out, which the server knows at the deadline.

        Without a deadline it knows at once.
        """
        if job.until == "arrived":
            self._take(job, self.reply(job))
            return
        job.silent = True
        if job.overdue or self.plan.rules.deadline is None:
            self.lose(job)

    def lose(self, job: InFlight) -> None:
        """Books that a client has dropped out."""
        assert job.request is not None
        compat.name(job.request, f"dropped-{job.client}-{job.number}")
        error = Error(ErrorCode.NODE_UNAVAILABLE, DROPPED[job.leaves])
        self._take(job, Message(error, reply_to=job.request))

    def _take(self, job: InFlight, reply: Message) -> None:
        with self.failing(self.number + 1):
            arrival = self.strategy.arrive(job.client, reply, job.overdue and not job.silent)
        # Before the row, whose checkpoint holds it; who is overdue has made place before.
        self.agenda.first("look" if job.overdue else "next")
        self.book_arrival(job, [arrival])

    def settings(self) -> ConfigRecord:
        """The settings of a message that is sent now: its iterations; for a schedule, the run's.

        A message's number counts the messages to its client. No schedule depends on it.
        """
        settings = {"iterations": self.plan.local_iterations(self.number + 1)}
        if self.work.ordering or self.work.local_steps:
            done = self.recorder.iterations_done
            return self.work.begin(self.number + 1, self.agenda.now, done)
        if self.plan.task.lr_steps:
            settings[START] = self.plan.iterations_after(self.number)
        return ConfigRecord(dict(settings))

    def job(self, client: int, number: int, content: RecordDict | None = None) -> InFlight:
        """A client's work on a message that is sent now, the ``number``-th to it."""
        work, plan = self.work.work.get(client), self.plan
        count = work.n if work else self.work.steps_of(client, self.number + 1)
        leaves = str(plan.rules.dropout.draw(self.config.seed, number, plan.clients)[client])
        if plan.rules.deadline is not None:
            self.agenda.last(plan.rules.deadline, "deadline", client, number)
        return InFlight(
            client,
            number,
            compute_seconds=count * float(self.clock.links.compute[client]),
            until="received" if leaves == "before" else "arrived",
            sent_at=self.agenda.now,
            iterations=count,
            fraction=work.p if work else 1.0,
            leaves=leaves,
            request=None if content is None else self.request(client, content),
        )

    def request(self, client: int, content: RecordDict) -> Message:
        """A message to a client."""
        return Message(content, self._nodes[client], "train")

    def reply(self, job: InFlight) -> Message:
        """A client's answer: if it has none yet, all clients at work compute theirs now."""
        if job.reply is None:
            waiting = {
                job.client: (job, job.request)
                for job in self.jobs.values()
                if job.reply is None and job.leaves != "before" and job.request is not None
            }
            requests = [request for _, (_, request) in sorted(waiting.items())]
            timeout = self.config.machine.timeout
            replies = list(self.grid.send_and_receive(requests, timeout=timeout))
            ids = {request.metadata.message_id: job for job, request in waiting.values()}
            for reply in replies:
                ids[reply.metadata.reply_to_message_id].reply = reply
        if job.reply is None:
            raise RunFailed(f"client {job.client} did not answer in {timeout:g} s")
        return job.reply

    def book_arrival(
        self, job: InFlight, arrivals: Sequence[Arrival], local_part: int | None = None
    ) -> None:
        """Books an update that has arrived; a row that is full with it is written."""
        now = self.agenda.now
        if not job.silent:
            job.ended_at = now
        times, work = job.parts(job.sent_at, now).tolist(), Work(job.iterations, job.fraction, 0)
        joules = 0.0 if self.spending is None else self.spending.charge(job)
        self._updates.append(
            Update(job.client, work, arrivals, local_part, times, now, job.overdue, joules)
        )
        if self.jobs[job.client] is job:  # it may have been asked again
            del self.jobs[job.client]
        if len(self._updates) < self.plan.cohort and not self.exhausted:
            return
        channel, number = self.channel, self.number + 1
        traffic = merge_updates(number, self._updates)
        traffic.begun = self.begun()
        required = 0 if self.exhausted else self.strategy.required or 0
        if len(traffic.uplinks) < required:
            raise RunFailed(
                f"round {number}: {len(traffic.uplinks)} of {self.plan.cohort} updates can be used "
                f"and {required} are required; {next(iter(traffic.failures.values()))}"
                f"{self._far}"
            )
        channel.traffic = traffic
        self.work.close(number, self.works(traffic).values())
        self._row = self.book(number, self._clock)
        self._updates, self._row_start, self._registered = [], now, 0.0
        self._clock = time.perf_counter()

    @property
    def exhausted(self) -> bool:
        """Whether nobody is at work, and nobody has energy left to be asked."""
        return self.spending is not None and not (self.spending.left or self.jobs)

    def joules(self) -> float | None:
        if self.spending is None:
            return None
        return sum((x.joules for x in self._updates), self._registered)

    def works(self, traffic: RoundTraffic) -> Mapping[int, Work]:
        return {place: update.work for place, update in enumerate(self._updates)}

    def begun(self) -> list[RoundTraffic]:
        """The arrived parts of updates whose other parts are still under way."""
        return []

    def durations(self) -> Mapping[int, float]:
        return {place: sum(update.seconds) for place, update in enumerate(self._updates)}

    def timing(self) -> AsynchronousRound:
        """As the base class's, with the staleness of the models that updates were made from."""
        updates, now = self._updates, self.agenda.now
        used = [updates[place] for place in self.channel.traffic.uplinks]
        nothing = [[math.nan] * len(PARTS)]
        means = np.mean([update.seconds for update in used] or nothing, axis=0)
        stale = [update.staleness for update in used]
        did = [update.work.n for update in used]
        by_deadline = self.plan.rules.deadline is not None
        return AsynchronousRound(
            parts=TimeParts(*means.tolist()),
            time=SimulatedTime(now - self._row_start, now),
            staleness=float(np.mean(stale)) if stale else math.nan,
            version=self.strategy.steps,
            staleness_max=max(stale, default=0.0),
            buffered=self.strategy.buffered,
            overdue=sum(update.overdue for update in updates) if by_deadline else None,
            used_iterations=sum(did) / len(did) if did else 0.0,
            in_flight=sum(job.request is not None for job in self.jobs.values()),
        )

    def client_records(self, works: Mapping[int, Work]) -> list[ClientRecord]:
        by_deadline = self.plan.rules.deadline is not None
        books = ledger.client_books(self.channel.traffic)
        return [
            ClientRecord(
                book,
                AsynchronousClient(
                    message=update.messages[0].round,
                    staleness=update.staleness,
                    parts=TimeParts(*update.seconds),
                    sim_end_seconds=update.end,
                    overdue=int(update.overdue) if by_deadline else None,
                ),
                self.work.client_orders(works.get(place)),
                None if self.spending is None else update.joules,
            )
            for place, (book, update) in enumerate(zip(books, self._updates, strict=True))
        ]
