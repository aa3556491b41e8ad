"""The events of a parameter server in parts: pushes and pulls go to each part by themselves."""

from typing import Any

import simpy
from flwr.app import Message, RecordDict

from fedsim.federation.clocked import bits_back, bits_down
from fedsim.federation.events import EventServer, Job, Process
from strategies import Arrival, RoundTraffic, ShardedStrategy
from strategies.channel.parts import join_parts, part_of


class ShardServer(EventServer):
    """``EventServer`` where every client holds a part of the model, and there is no other server.

    A message between two clients takes the upload link of one and the download link of the other,
    and the latency of both.
    """

    strategy: ShardedStrategy

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._booked: dict[int, dict[int, Arrival]] = {}  # by worker: parts that have come

    def begun(self) -> list[RoundTraffic]:
        return [arrival.traffic for booked in self._booked.values() for arrival in booked.values()]

    def serve(self, client: int) -> Process:
        """A worker, again and again: pulls of all parts, a batch, pushes to all parts."""
        places = range(self.plan.clients)
        pulled: dict[int, RecordDict] = {}
        yield self._all([self._pull(client, place, pulled) for place in places])
        start = 0.0
        while True:
            contents = [pulled[place] for place in places]
            job = self.job(client, join_parts(contents, client), start)
            yield from self.train(job)
            reply, pulled = self.reply(job), {}
            booked = self._booked[client] = {}
            yield self._all([self._push(job, p, reply, booked, pulled) for p in places])
            start = self.arrived[client]

    def _all(self, processes: list[Process]) -> simpy.Event:
        return self.env.all_of([self.env.process(process) for process in processes])

    def _pull(self, client: int, place: int, pulled: dict[int, RecordDict]) -> Process:
        pulled[place] = self.strategy.pull(client, place, self.settings())
        traffic = self.strategy.ends[place].traffic
        yield from self._travel(bits_down(traffic, client, self.framing), place, client)

    def _push(
        self, job: Job, place: int, reply: Message, booked: dict[int, Arrival],
        pulled: dict[int, RecordDict],
    ) -> Process:  # fmt: skip
        """A part of a gradient to where the part is held, which answers at once."""
        client = job.client
        is_part = reply.has_content()
        part = Message(part_of(reply.content, place), reply_to=reply) if is_part else reply
        asked = self.strategy.ends[place].asked[client].traffic
        back = bits_back(asked, client, part, self.framing)
        if self.framing and place != client:
            yield self.flows.send(back.down, [("up", place), ("down", client)])
        yield from self._travel(back.up, client, place)
        if self.over.triggered:  # at this very moment, by another worker
            return
        with self.failing(self.number + 1):
            booked[place] = self.strategy.push(client, place, reply)
        if len(booked) == self.plan.clients:
            self._booked.pop(client)
            self.came(job, [booked[i] for i in sorted(booked)], own=client)
        if not self.over.triggered:
            yield from self._pull(client, place, pulled)

    def _travel(self, bits: int, sender: int, receiver: int) -> Process:
        """A message from client to client; one to itself takes no time."""
        if sender == receiver:
            return
        yield self.flows.send(bits, [("up", sender), ("down", receiver)])
        yield self.env.timeout(float(self.links.latency[[sender, receiver]].sum()))
