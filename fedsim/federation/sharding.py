"""The events of a parameter server in parts: pushes and pulls go to each part by themselves."""

from typing import Any

from flwr.app import Message, RecordDict

from fedsim.engines import compat
from fedsim.federation.clocked import bits_back, bits_down
from fedsim.federation.events import EventServer, Job
from strategies import Arrival, RoundTraffic, ShardedStrategy
from strategies.channel.framing import Travel
from strategies.channel.parts import join_parts, part_of


class ShardServer(EventServer):
    """``EventServer`` where every client holds a part of the model, and there is no other server.

    A message between two clients takes the upload link of one and the download link of the other,
    and the latency of both.
    """

    strategy: ShardedStrategy

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.handlers |= {
            "pull": self.pull, "push": self.push, "answered": self.send_part, "pushed": self.pushed,
            "passed": self.passed, "over": self.over, "pulled": self.pulled, "all": self.compute,
        }  # fmt: skip
        self._booked: dict[int, dict[int, Arrival]] = {}  # by worker: parts that have come
        self._pulled: dict[int, dict[int, RecordDict]] = {}  # by worker: parts of the model
        self._waiting: dict[int, int] = {}  # by worker: how many of these are still to come

    def begun(self) -> list[RoundTraffic]:
        return [arrival.traffic for booked in self._booked.values() for arrival in booked.values()]

    def under_way(self) -> dict[str, Any]:
        pulled = {
            client: {place: compat.to_bytes(content) for place, content in parts.items()}
            for client, parts in self._pulled.items()
        }
        parts = {"booked": self._booked, "pulled": pulled, "waiting": self._waiting}
        return super().under_way() | parts

    def go_on(self, known: dict[str, Any]) -> None:
        super().go_on(known)
        self._booked, self._waiting = known["booked"], known["waiting"]
        self._pulled = {
            client: {place: compat.from_bytes(data) for place, data in parts.items()}
            for client, parts in known["pulled"].items()
        }

    def begin(self, client: int) -> None:
        """A worker pulls all parts for the first time."""
        self._each(client, "pull")

    def compute(self, client: int) -> None:
        """A worker has all parts, and trains on a batch."""
        parts = self._pulled.pop(client)
        contents = [parts[place] for place in range(self.plan.clients)]
        self.job(client, join_parts(contents, client), self.arrived.get(client, 0.0))
        self.received(client)

    def trained(self, client: int) -> None:
        """A worker pushes to all parts."""
        job = self._jobs[client]
        job.trained = self.agenda.now
        self.reply(job)
        self._booked[client] = {}
        self._each(client, "push")

    def _each(self, client: int, what: str) -> None:
        self._waiting[client], self._pulled[client] = self.plan.clients, {}
        for place in range(self.plan.clients):
            self.agenda.first(what, client, place)

    def pull(self, client: int, place: int) -> None:
        """A part goes to a worker."""
        self._pulled[client][place] = self.strategy.pull(client, place, self.settings())
        traffic = self.strategy.ends[place].traffic
        bits = bits_down(traffic, client, self.framing)
        self._travel(bits, place, client, ("over", client))

    def over(self, client: int) -> None:
        """A part has come."""
        self.agenda.after(0.0, "pulled", client)

    def pulled(self, client: int) -> None:
        """A part has come: with the last one the worker goes on."""
        self._waiting[client] -= 1
        if not self._waiting[client]:
            self.agenda.after(0.0, "all", client)

    def push(self, client: int, place: int) -> None:
        """A part of a gradient begins its way to where the part is held."""
        if self.framing and place != client:
            links = ("up", place), ("down", client)
            self.flows.send(self._of_part(client, place).down, links, ("answered", client, place))
        else:
            self.send_part(client, place)

    def send_part(self, client: int, place: int) -> None:
        """A part of a gradient goes to where the part is held."""
        up = self._of_part(client, place).up
        self._travel(up, client, place, ("pushed", client, place))

    def pushed(self, client: int, place: int) -> None:
        """A part of a gradient has come: the part moves, and the worker is answered at once."""
        job, booked = self._jobs[client], self._booked[client]
        with self.failing(self.number + 1):
            booked[place] = self.strategy.push(client, place, self.reply(job))
        whole = len(booked) == self.plan.clients
        if whole:
            self._booked.pop(client)
        if not (whole and len(self._updates) + 1 == self.plan.cohort):
            if whole:
                self._whole(job, booked)
            self.pull(client, place)
        else:  # before the row, whose checkpoint holds it
            self.agenda.first("pull", client, place)
            self._whole(job, booked)

    def _whole(self, job: Job, booked: dict[int, Arrival]) -> None:
        self.came(job, [booked[place] for place in sorted(booked)], own=job.client)

    def passed(self, sender: int, receiver: int, then: tuple[Any, ...]) -> None:
        """A message has passed both links."""
        self.agenda.after(float(self.links.latency[[sender, receiver]].sum()), *then)

    def _travel(self, bits: int, sender: int, receiver: int, then: tuple[Any, ...]) -> None:
        """A message from client to client; one to itself takes no time."""
        if sender == receiver:
            name, *arguments = then
            self.handlers[name](*arguments)
        else:
            links = ("up", sender), ("down", receiver)
            self.flows.send(bits, links, ("passed", sender, receiver, then))

    def _of_part(self, client: int, place: int) -> Travel:
        reply = self.reply(self._jobs[client])
        if reply.has_content():
            reply = Message(part_of(reply.content, place), reply_to=reply)
        asked = self.strategy.ends[place].asked[client].traffic
        return bits_back(asked, client, reply, self.framing)
