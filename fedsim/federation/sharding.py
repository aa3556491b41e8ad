"""The events of a parameter server in parts: pushes and pulls go to each part by themselves."""

from typing import Any

from flwr.app import Message, RecordDict

from fedsim.engines import compat
from fedsim.federation.concurrent import Concurrent
from fedsim.federation.inflight import InFlight, bits_back, bits_down
from strategies import Arrival, ShardedStrategy
from strategies.channel.framing import Travel
from strategies.channel.parts import join_parts, part_of


class ConcurrentShards(Concurrent):
    """``Concurrent`` where every client holds a part of the model, and there is no other server.

    A message between two clients takes the upload link of one and the download link of the other,
    and the latency of both.
    """

    strategy: ShardedStrategy

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clock.handlers |= {
            "pull": self.pull,
            "push": self.push,
            "part asked": self.send_part,
            "pushed": self.pushed,
            "passed": self.passed,
            "came": lambda client: self.agenda.after(0.0, "pulled", client),
            "pulled": self.pulled,
            "all": self.compute,
        }
        self._pulled: dict[int, dict[int, RecordDict]] = {}  # by worker: parts of the model
        self._waiting: dict[int, int] = {}  # by worker: how many of these are still to come

    def state(self) -> dict[str, Any]:
        pulled = {
            client: {place: compat.to_bytes(content) for place, content in parts.items()}
            for client, parts in self._pulled.items()
        }
        parts = {"booked": self._booked, "pulled": pulled, "waiting": self._waiting}
        return super().state() | parts

    def restore(self, values: dict[str, Any]) -> None:
        super().restore(values)
        self._booked, self._waiting = values["booked"], values["waiting"]
        self._pulled = {
            client: {place: compat.from_bytes(data) for place, data in parts.items()}
            for client, parts in values["pulled"].items()
        }

    @property
    def goes_on(self) -> bool:
        """Whether every worker goes on at once: what answers a push is a part of its next model."""
        return self.plan.rules.plain and self.plan.ask == self.plan.clients

    def begin(self, client: int) -> None:
        """A worker pulls all parts."""
        self.start(client)
        self._each(client, "pull")

    def start(self, client: int) -> None:
        """A worker's message begins, with the parts that it pulls."""
        number = self.strategy.requests_to(client) + (not self.goes_on)
        self.idle.remove(client)
        self.jobs[client] = self._unanswered[client] = self.job(client, max(1, number))

    def compute(self, client: int) -> InFlight | None:
        """A worker has all parts, and trains on a batch."""
        parts, job = self._pulled.pop(client), self.jobs[client]
        contents = [parts[place] for place in range(self.plan.clients)]
        job.request = self.request(client, join_parts(contents, client))
        return self.clock.compute(job)

    def trained(self, job: InFlight) -> None:
        reply = self.reply(job)
        job.until = "trained"  # what it sends goes to each part by itself
        if job.leaves and reply.has_content():
            self.strategy.loses(job.client)
        else:
            job.leaves = ""

    def over(self, job: InFlight) -> None:
        """A worker pushes to all parts, or has dropped out."""
        if job.leaves:
            super().over(job)
            return
        self._booked[job.client] = {}
        self._each(job.client, "push")

    def _take(self, job: InFlight, reply: Message) -> None:
        """A worker has dropped out: no part hears from it."""
        places = range(self.plan.clients)
        arrivals = [self.strategy.push(job.client, place, reply) for place in places]
        self._answer_worker(job, dict(enumerate(arrivals)))

    def _each(self, client: int, what: str) -> None:
        self._waiting[client], self._pulled[client] = self.plan.clients, {}
        for place in range(self.plan.clients):
            self.agenda.first(what, client, place)

    def pull(self, client: int, place: int) -> None:
        """A part goes to a worker."""
        self._pulled[client][place] = self.strategy.pull(client, place, self.settings())
        traffic = self.strategy.ends[place].traffic
        bits = bits_down(traffic, client, self.framing)
        self._travel(bits, place, client, ("came", client))

    def pulled(self, client: int) -> None:
        """A part has come: with the last one the worker goes on."""
        self._waiting[client] -= 1
        if not self._waiting[client]:
            self.agenda.after(0.0, "all", client)

    def push(self, client: int, place: int) -> None:
        """A part of a gradient begins its way to where the part is held."""
        if self.framing and place != client:
            links = ("up", place), ("down", client)
            down = self._of_part(client, place).down
            self.clock.flows.send(down, links, ("part asked", client, place))
        else:
            self.send_part(client, place)

    def send_part(self, client: int, place: int) -> None:
        """A part of a gradient goes to where the part is held."""
        up = self._of_part(client, place).up
        self._travel(up, client, place, ("pushed", client, place))

    def pushed(self, client: int, place: int) -> None:
        """A part of a gradient has come: the part moves, and the worker is answered at once."""
        job, booked = self.jobs[client], self._booked[client]
        booked[place] = self.strategy.push(client, place, self.reply(job), job.overdue, self.number)
        complete = len(booked) == self.plan.clients
        full = complete and len(self._updates) + 1 == self.plan.cohort
        if self.goes_on and full:  # it sees the next row
            self.agenda.first("pull", client, place)
        if complete:
            del self._booked[client]
            self._answer_worker(job, booked)
        if self.goes_on and not full:
            self.pull(client, place)

    def _answer_worker(self, job: InFlight, booked: dict[int, Arrival]) -> None:
        """All parts have heard of a worker's message; it, or another, has its next."""
        if self.goes_on:
            self.start(job.client)
        else:
            self.agenda.first("look" if job.overdue else "next")
        self.book_arrival(job, [booked[place] for place in sorted(booked)], local_part=job.client)

    def passed(self, sender: int, receiver: int, then: tuple[Any, ...]) -> None:
        """A message has passed both links."""
        self.agenda.after(float(self.clock.links.latency[[sender, receiver]].sum()), *then)

    def _travel(self, bits: int, sender: int, receiver: int, then: tuple[Any, ...]) -> None:
        """A message from client to client; one to itself takes no time."""
        if sender == receiver:
            name, *arguments = then
            self.clock.handlers[name](*arguments)
        else:
            links = ("up", sender), ("down", receiver)
            self.clock.flows.send(bits, links, ("passed", sender, receiver, then))

    def _of_part(self, client: int, place: int) -> Travel:
        reply = self.reply(self.jobs[client])
        if reply.has_content():
            reply = Message(part_of(reply.content, place), reply_to=reply)
        traffic = self.strategy.ends[place].in_flight[client].traffic
        return bits_back(traffic, client, reply, self.framing)
