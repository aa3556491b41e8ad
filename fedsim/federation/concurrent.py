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
from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from compressors import derive
from fedsim.engines import compat
from fedsim.federation.idle import IdleClients
from fedsim.federation.inflight import InFlight, bits_back, bits_down, drop_error
from fedsim.federation.orders import START, Work
from fedsim.federation.schedule import Schedule
from fedsim.federation.updates import RoundUpdates, Update, merge_updates
from fedsim.ground.errors import RunFailed
from fedsim.ground.records import ArrivalCounts, ClientTiming, TimeParts
from strategies import Arrival, Asynchronous, RoundTraffic, TooFewReplies
from strategies.channel.nodes import cohort


class Concurrent(Schedule):
    """So many clients at work at once: each update is taken in as it arrives.

    Raises ``RunFailed`` where a client does not answer in time.
    """

    strategy: Asynchronous

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clock.trained = self.trained
        self.framing = self.spec.framing
        self.clock.handlers |= {
            "ask": self.begin,
            "next": self.ask_next,
            "look": self.look,
            "deadline": self.deadline,
        }
        self.number, self.done = 1, 0  # the row that is not full yet, and iterations before it
        self._unfilled, self._look = 0, 0.0  # places at work, and when a client may be there
        self._turns, self._updates = 0, list[Update]()
        self._registered = 0.0  # joules of what the sampler asked clients for, of the first row
        self._booked: dict[int, dict[int, Arrival]] = {}  # by client: arrivals of part of an update
        self.idle = IdleClients(self.plan.clients, self.presence)
        self._unanswered = dict[int, InFlight]()  # by client: at work, and its reply is not known

    def open(self, grid: Grid) -> None:
        roster = self.strategy.roster
        assert roster is not None
        roster.gather(grid, self.plan.clients)
        self.grid, self._nodes = grid, roster.nodes

    def collect(self, number: int, done: int) -> RoundUpdates:
        """Goes on until there are as many updates as a cohort has."""
        self.number, self.done, start = number, done, self.agenda.now
        if number == 1:
            self.ask_first()
        while len(self._updates) < self.plan.cohort and not (self._updates and self.exhausted):
            ended = self.clock.step()
            if ended is not None:
                self.over(ended)
        updates, self._updates = self._updates, []
        traffic = merge_updates(number, updates)
        traffic.begun = [x.traffic for parts in self._booked.values() for x in parts.values()]
        required = 0 if self.exhausted else self.strategy.required or 0
        if len(traffic.uplinks) < required:
            raise TooFewReplies(
                f"round {number}: {len(traffic.uplinks)} of {self.plan.cohort} updates can be used "
                f"and {required} are required; {next(iter(traffic.failures.values()))}"
            )
        self.strategy.end.traffic = traffic
        self.work.close(number, [update.work for update in updates if update.work])
        return self.row(traffic, updates, start)

    def ask_first(self) -> None:
        """Asks the first clients."""
        plan = self.plan
        if self.sampling is not None:
            registered = self.sampling.register(self.clock, True)
            if self.spending is not None:
                self._registered = sum(map(self.spending.charge, registered))
                for client in self.depleted:
                    self.idle.remove(client)
        if self.presence is not None:
            for _ in range(plan.ask):
                self.agenda.first("next")
            return
        if self.sampling is None:
            first: Sequence[int] = cohort(plan.clients, plan.ask, self.config.seed, 1)
        else:
            first = self.sampling.draw(0, 1, range(plan.clients), plan.ask, self.agenda.now)
        for client in first:
            self.agenda.first("ask", client)

    @property
    def jobs(self) -> dict[int, InFlight]:
        """By client: at work."""
        return self.clock.exchanges

    def state(self) -> dict[str, Any]:
        return {
            "clock": self.clock.state(),
            "turns": self._turns,
            "exchanges": [job.values() for job in self.jobs.values()],
            "unfilled": self._unfilled,
            "look": self._look,
        }

    def restore(self, values: dict[str, Any]) -> None:
        jobs = [InFlight.of(job, self._nodes) for job in values["exchanges"]]
        self.clock.restore(values["clock"], jobs)
        self.idle = IdleClients(self.plan.clients, self.presence, {*self.jobs, *self.depleted})
        self._unanswered = {job.client: job for job in jobs if job.reply is None}
        self._turns, self._unfilled, self._look = (
            values[name] for name in ("turns", "unfilled", "look")
        )

    def begin(self, client: int) -> None:
        """Sends a client its next message; a reply waits until somebody needs it."""
        content = self.strategy.message(client, self.settings())
        traffic = self.strategy.traffic_of(client)
        job = self.job(client, traffic.round, content)
        job.down_bits = bits_down(traffic, client, self.framing)
        self.idle.remove(client)
        self._unanswered[client] = job
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
        now, turn, presence, busy = self.agenda.now, self._turns + 1, self.presence, bool(self.jobs)
        idle, free = self.idle, self.idle.free
        if self.sampling is not None:
            among = free if presence is None else idle.present_now(now, self.number, busy)
            drawn = self.sampling.draw(turn, self.number, among, 1, now)
            client, when = next(iter(drawn), None), now
            if client is None:
                when = idle.next_change(now)
        elif presence is not None:
            when, client = idle.next(now, self.number, turn, busy)
        else:
            draw = derive(self.config.seed, "next client", turn)
            return free[draw % len(free)] if len(free) else None
        if client is None and presence is not None:
            if not busy:  # raises: never
                when, _ = presence.at(now, self.number, 1, 1, excluded=self.depleted)
            if when != self._look and math.isfinite(when):
                self._look = when
                self.agenda.at(when, "look")
        return client

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
        if job.overdue or self.rules.deadline is None:
            self.lose(job)

    def lose(self, job: InFlight) -> None:
        """Books that a client has dropped out."""
        assert job.request is not None
        compat.name(job.request, f"dropped-{job.client}-{job.number}")
        self._take(job, drop_error(job.request, job.leaves))

    def _take(self, job: InFlight, reply: Message) -> None:
        arrival = self.strategy.arrive(job.client, reply, job.overdue and not job.silent)
        # Who is overdue has made place before.
        self.agenda.first("look" if job.overdue else "next")
        self.book_arrival(job, [arrival])

    def settings(self) -> ConfigRecord:
        """The settings of a message that is sent now: its iterations; for a schedule, the run's.

        A message's number counts the messages to its client. No schedule depends on it.
        """
        settings = self.work.begin(self.number, self.agenda.now, self.done)
        if self.plan.task.lr_steps and self.work.ordering is None:
            settings[START] = self.done
        return settings

    def job(self, client: int, number: int, content: RecordDict | None = None) -> InFlight:
        """A client's work on a message that is sent now, the ``number``-th to it."""
        work, plan = self.work.work_of(client), self.plan
        count = work.n if work else plan.local_iterations(self.number)
        leaves = self.rules.dropout.draw(self.config.seed, number, [client])[client]
        if self.rules.deadline is not None:
            self.agenda.last(self.rules.deadline, "deadline", client, number)
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
                client: (other, other.request)
                for client, other in self._unanswered.items()
                if other.leaves != "before" and other.request is not None
            }
            requests = [request for _, (_, request) in sorted(waiting.items())]
            timeout = self.config.machine.timeout
            replies = list(self.grid.send_and_receive(requests, timeout=timeout))
            ids = {request.metadata.message_id: job for job, request in waiting.values()}
            for reply in replies:
                answered = ids[reply.metadata.reply_to_message_id]
                answered.reply = reply
                del self._unanswered[answered.client]
        if job.reply is None:
            raise RunFailed(f"client {job.client} did not answer in {timeout:g} s")
        return job.reply

    def book_arrival(
        self, job: InFlight, arrivals: Sequence[Arrival], local_part: int | None = None
    ) -> None:
        """Books an update that has arrived."""
        now, client = self.agenda.now, job.client
        if not job.silent:
            job.ended_at = now
        parts = job.parts(job.sent_at, now).tolist()
        timing = ClientTiming(
            message=arrivals[0].traffic.round,
            staleness=sum(arrival.staleness for arrival in arrivals) / len(arrivals),
            parts=TimeParts(*parts),
            sim_end_seconds=now,
            overdue=None if self.rules.deadline is None else int(job.overdue),
        )
        work = Work(job.iterations, job.fraction, 0)
        joules = 0.0 if self.spending is None else self.spending.charge(job)
        update = Update(client, work, parts, sum(parts), timing, joules, arrivals, local_part)
        self._updates.append(update)
        if self.jobs[client] is job:  # it may have been asked again
            del self.jobs[client]
            self._unanswered.pop(client, None)
            if client not in self.depleted:
                self.idle.add(client)

    @property
    def exhausted(self) -> bool:
        """Whether nobody is at work, and nobody has energy left to be asked."""
        return self.spending is not None and not (self.spending.left or self.jobs)

    def row(self, traffic: RoundTraffic, updates: Sequence[Update], start: float) -> RoundUpdates:
        """Updates as a row; the staleness is of the models that used ones were made from."""
        joules = sum((update.joules for update in updates), self._registered)
        row, self._registered = RoundUpdates(traffic, dict(enumerate(updates)), joules), 0.0
        stale = [update.timing.staleness or 0.0 for update in row.used]
        did = [update.work.n for update in row.used if update.work]
        overdue = [update.timing.overdue or 0 for update in updates]
        row.times(start, self.agenda.now)
        row.timing.arrivals = ArrivalCounts(
            staleness=float(np.mean(stale)) if stale else math.nan,
            version=self.strategy.steps,
            staleness_max=max(stale, default=0.0),
            buffered=self.strategy.buffered,
            overdue=None if self.rules.deadline is None else sum(overdue),
            used_iterations=sum(did) / len(did) if did else 0.0,
            in_flight=sum(job.request is not None for job in self.jobs.values()),
        )
        return row
