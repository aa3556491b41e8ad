"""A server and three clients with everything that can go wrong between them, and what they hold."""

from typing import Any

import torch
from flwr.app import ConfigRecord, Message, RecordDict
from torch import Tensor

from compressors import Compressor, State, decompress
from strategies import ClientEnd, ServerEnd
from strategies.channel.acknowledge import OutOfOrder
from strategies.channel.client_end import NoBase, ask_for_model, one_by_one
from strategies.channel.mailbox import LATE
from strategies.channel.payload import KEY, get
from strategies.channel.replies import answered_round

CLIENTS = 3
EVENTS = (
    "fine",
    "not delivered",
    "reply lost",
    "reply late",  # it comes in a later round
    "message late",  # the client gets it in a later round
    "message twice",
    "reply twice",
    "reply damaged",
    "killed at work",  # before it remembered anything
    "restarted",  # its memory comes back from the disk
    "absent",  # it is not asked
)
LIKE = {"a": torch.zeros(3, 2), "b": torch.zeros(2)}


class World:
    """Runs rounds and keeps the books: what each client trained, and what became of it.

    Updates are whole numbers, so that float32 is exact.
    """

    def __init__(
        self, uplink: Compressor, downlink: Compressor, late: str = "hold", catch_up: bool = False
    ) -> None:
        self.uplink, self.late = uplink, late
        self.server = ServerEnd(uplink, downlink, LIKE, catch_up=catch_up)
        self.lost = {c: zero() for c in range(CLIENTS)}  # counted as such
        self.end = ClientEnd(uplink, downlink, LIKE)
        self.memory: dict[int, State] = dict.fromkeys(range(CLIENTS), {})
        self.trained = {c: zero() for c in range(CLIENTS)}
        self.applied = {c: zero() for c in range(CLIENTS)}
        self.late_replies: list[tuple[int, Message]] = []
        self.late_messages: list[tuple[int, RecordDict]] = []
        self.fates: list[str] = []

    def round(self, number: int, events: dict[int, str], updates: dict[int, Any]) -> None:
        """One round, in which to each client happens what ``events`` says."""
        absent = [c for c, event in events.items() if event == "absent"]
        if self.late != "hold":  # who is still at work is not asked
            absent += [client for client, _ in self.late_replies]
        self.server.begin(number, [c for c in range(CLIENTS) if c not in absent])
        arrived, self.late_replies = self.late_replies, []
        messages, self.late_messages = self.late_messages, []
        for client, event in events.items():
            if client in absent:
                continue
            content = self.server.content(client, ConfigRecord())
            if event == "message late":
                self.late_messages.append((client, content))
            elif event != "not delivered":
                messages.append((client, content))
                messages += [(client, content)] * (event == "message twice")
        for client, content in messages:
            arrived += self.answers(client, content, events[client], updates[client])
        for client, reply in reversed(arrived):
            self._take(client, reply, number)
        for client in self.server.grant():
            again = self.server.content(client, ConfigRecord())
            for _, reply in self.answers(client, again, "fine", updates[client]):
                self.server.take(client, reply)
        uplinks = self.server.finish(required=0)
        if uplinks:
            self.server.advance({n: sum(u.update[n] for u in uplinks.values()) for n in LIKE})
        for client, up in uplinks.items():
            self.applied[client] = added(self.applied[client], up.update)
            self.fates += ["returned"] * up.returned + ["lost"] * up.lost

    def _take(self, client: int, reply: Message, number: int) -> None:
        """What the strategy does with a reply: in time, or late by its policy."""
        asked = answered_round(reply)
        if client not in self.server.traffic.downlinks and asked is None:
            self.server.charge(client, reply)  # a wish for the model that comes too late
        elif asked in (None, number) or self.late == "hold":
            self.server.take(client, reply)
        else:
            before = len(self.server.traffic.dropped)
            LATE[self.late](self.server, client, reply, True)
            if len(self.server.traffic.dropped) > before:
                payload, _ = get(reply.content)
                self.lost[client] = added(self.lost[client], decompress(self.uplink, payload, LIKE))

    def answers(self, client: int, content: RecordDict, event: str, update: Any) -> list[Any]:
        """What reaches the server of a client's answer now."""
        held = self.memory[client]
        reply_content = RecordDict()
        try:
            delivery = self.end.decode(content, held or None)
        except OutOfOrder:
            return []
        except NoBase:
            reply_content = ask_for_model()
        else:
            if event == "killed at work":
                return []
            packet, memory = one_by_one(self.end.encode(client, update, delivery))
            self.end.reply(reply_content, packet, delivery, {})
            self.memory[client] = from_disk(memory) if event == "restarted" else memory
            self.trained[client] = added(self.trained[client], update)
        reply = Message(reply_content, reply_to=Message(RecordDict(), 1, "train"))
        if event == "reply damaged" and "payload" in reply_content[KEY]:
            payload = bytes(reply_content[KEY]["payload"])
            reply_content[KEY]["payload"] = payload[:-1]
        if event == "reply late":
            self.late_replies.append((client, reply))
        if event in ("reply lost", "reply late"):
            return []
        return [(client, reply)] * (2 if event == "reply twice" else 1)

    def held(self, client: int) -> dict[str, Tensor]:
        """The residual or the shift, and what is pending that was not applied."""
        memory = self.memory[client]
        total = zero()
        for key, x in memory.items():  # below by_name there is one per rule
            kind, _, name = key.rpartition("/")
            if kind.endswith(("residual", "shift")):
                total[name] += x.double()
        number = int(memory.get("pending/round", torch.tensor(0)))
        if number and self.server.applied.get(client) != number:
            payload = memory["pending/payload"].numpy().tobytes()
            total = added(total, decompress(self.uplink, payload, LIKE))
        return total


def zero() -> dict[str, Tensor]:
    """Nothing, in float64."""
    return {name: torch.zeros(x.shape, dtype=torch.float64) for name, x in LIKE.items()}


def added(total: dict[str, Tensor], more: Any) -> dict[str, Tensor]:
    """The sum, in float64."""
    return {name: x + more[name].double() for name, x in total.items()}


def from_disk(memory: State) -> State:
    """What a restarted client reads: copies, of the same dtypes."""
    return {name: x.clone() for name, x in memory.items()}
