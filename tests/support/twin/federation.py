"""Synchronous rounds: who is asked, what is sent, what comes when, what is applied."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedsim import RunConfig
from tests.support.twin import task
from tests.support.twin.client import Client, Training
from tests.support.twin.clock import Clock
from tests.support.twin.cohort import Availability, leaving
from tests.support.twin.downlink import Downlink
from tests.support.twin.draws import Draws
from tests.support.twin.keys import Keys, Pair
from tests.support.twin.ledger import PARTS, Result, blank
from tests.support.twin.messages import Message, Method
from tests.support.twin.network import SAME, Network, below, call, number
from tests.support.twin.orders import Order, Told, controller, cosine
from tests.support.twin.rules import ENTRIES, RULES, FedAvg, Uplink
from tests.support.twin.samplers import TOLD, Sampler

NEWS = 8  # bits that say which update of a client was taken last


@dataclass(eq=False)
class Exchange:
    """One message to a client, and its reply."""

    client: Client
    order: Order
    version: int  # of the model that it was sent
    row: dict[str, Any]  # of the client in the round in which it was asked
    leaves: bool = False  # it will not answer
    message: Message | None = None
    loss: float = math.nan
    work: Any = None
    told: dict[str, int] = field(default_factory=dict)  # by its reply, where that is taken
    dropped: bool = False


class Federation:
    """One run.

    Args:
        settings: of the run, as ``RunConfig`` takes them.
        config: the same, checked: the dice of the run are made from it.
        known: what is done as fedsim does it until that is mended, see ``compare.KNOWN``.
    """

    def __init__(self, settings: dict[str, Any], config: RunConfig, known: Sequence[str]) -> None:
        get = settings.get
        self.known = known
        self.settings, clients = settings, settings["clients"]
        self.draws = Draws(config, clients)
        self.training = Training(
            get("lr") or task.LR,
            get("momentum", task.MOMENTUM),
            get("proximal") or 0.0,
            settings["task"] is task.STEPPED,
            get("momentum_masking", "auto"),
            get("stateless", False),
        )
        name, _ = call(get("strategy", "dsgd"))
        self.rule = RULES[name](settings, self.training, self.draws, known)
        tensors = list(self.rule.tensors)
        start = np.concatenate([self.draws.model[name].ravel() for name in task.NAMES])
        self.server = Downlink(settings, self.rule.start(start), tensors)
        method = Method.of(get("method", "raw"), get("gradient"))
        self.clients = [
            Client(c, self.draws, self.training, method, tensors) for c in range(clients)
        ]
        self.clock = Clock(Network(get("network") or "", self.draws))
        self.cohort = get("cohort") or clients
        given = get("sampler") or "uniform"
        self.sampler = Sampler(given, self.draws, self.clock, sum(tensors))
        self.told_samples = 0  # bits, of the round
        self.unlisted_joules = 0.0  # that the round's clients did not spend
        self.with_model = 0  # bits that travel with the model, of secure aggregation
        self.exchanged: dict[int, float] = {}  # joules of its other exchanges, by client
        self.bound = get("max_norm") or math.inf
        self.deadline = number(str(get("deadline") or "inf"))
        self.late = get("late", "hold")
        self.before, self.after = leaving(get("dropout"))
        self.availability = Availability(get("availability"), self.draws)
        shaped = any(get(s) is not None for s in ("availability", "dropout", "deadline", "ask"))
        self.least = get("min_replies") or (1 if shaped else self.cohort)
        self.spent = [0.0] * clients  # joules
        self.empty: list[int] = []  # clients that have none left
        if ("battery" in self.clock.network.said or get("max_norm")) and not shaped:
            everybody = get("strategy") in ("marina", "diloco")  # which take every reply
            self.least = get("min_replies") or (self.cohort if everybody else 1)
        self.may_be_empty = shaped and get("min_replies") is None and "empty" not in known
        self.local_seconds = number(str(get("local_seconds") or 0))
        self.unlike = bool(get("local_epochs") or self.local_seconds)  # clients in what they do
        self.controller = controller(settings, self.clock.network)
        if self.controller is not None and self.unlike:
            self.controller.steps_of = self.steps_of
        self.behind = 0.0  # iterations behind used updates, of epochs: the mean of each round's
        # of a client's last message, without what it reports: bits and entries
        self.last: dict[int, tuple[int, int]] = {}
        self.at_work: list[Exchange] = []
        self.too_late: list[Exchange] = []  # came as the round before ended, and were not taken
        self.iteration = 0
        self.result = Result()

    def run(self) -> Result:
        """Until the iterations are done, the bits are sent, or too few replies come."""
        stop = number(str(self.settings.get("stop_at_bits") or "inf"))
        scored = set()  # rounds
        sent = self.result.summary
        joules = number(str(self.settings.get("stop_at_joules") or "inf"))
        while (
            self.goes_on
            and below(sent["up_wire_bits"], stop)
            and below(sent["energy_joules"], joules)
            and not self.exhausted
        ):
            before = sent["up_wire_bits"]
            if not self.round(len(self.result.rounds) + 1):
                self.result.failed = len(self.result.rounds) + 1
                break
            if below(stop, sent["up_wire_bits"]):  # the round before was the last within them
                scored.add(len(self.result.rounds) - 1)
            if not below(2 * sent["up_wire_bits"] - before, stop):  # with one more message as large
                scored.add(len(self.result.rounds))
        else:
            self.result.model = self.server.model[:ENTRIES]
            scored.add(len(self.result.rounds))
        self.result.by_rounding |= self.rule.by_rounding
        every = self.settings.get("evaluate_every") or 1
        if not self.unlike:
            self.result.score_only(scored, every * self.settings["temporal"])
        else:
            rounds = len(self.result.rounds)
            self.result.score_only(scored | {*range(every, rounds + 1, every)}, 1_000_000)
        return self.result

    @property
    def goes_on(self) -> bool:
        """Whether rounds, or iterations, are left."""
        if self.unlike:
            return len(self.result.rounds) < int(self.settings["rounds"])
        return self.iteration < int(self.settings["iterations"])

    @property
    def exhausted(self) -> bool:
        """Whether too few have energy left."""
        return len(self.clients) - len(self.empty) < self.least

    def spend(self, client: int, joules: float) -> None:
        """A client has spent so much; its battery may be empty now."""
        self.spent[client] += joules
        if client in self.empty:
            return
        if not below(self.spent[client], self.clock.network.joules["battery"][client]):
            self.empty.append(client)

    def steps_of(self, client: int) -> int:
        """The iterations that a client does in a round: those of its epochs, or as many as all.

        An epoch is the whole batches of a client's samples; of seconds, those that fit, and one at
        least (docs/tasks.md).
        """
        if self.local_seconds:
            compute = self.clock.network.values["compute"][client]
            return max(1, int(self.local_seconds / compute + 1000 * SAME))
        if not self.unlike:
            return int(min(self.settings["temporal"], self.left))
        samples = self.clients[client].samples
        batches = samples // min(samples, self.settings["batch_size"])
        return int(self.settings["local_epochs"] * batches)

    def round(self, number: int) -> bool:
        """One round; False where too few clients are ever there, or too few replies came."""
        begin = self.clock.now
        if not self.availability.is_enough(self.least, self.empty):
            return False
        rows: dict[int, dict[str, Any]] = {}  # of clients, in this round
        late, self.too_late = self.too_late, []  # these are charged in this round
        free, came = self.wait_for_clients(number, late)
        self.told_samples = self.sampler.tell() if number == 1 else 0
        told = self.tells_samples() if self.told_samples else {}
        asked = self.whom(number, self.settings.get("ask") or self.cohort, free)
        if not asked and isinstance(self.rule, FedAvg) and "nobody" in self.known:
            return False
        keys = Keys.of(self.settings, len(asked))
        if keys is not None and len(asked) < keys.threshold:
            return False
        orders = self.orders(asked, number, self.clock.now)
        for pair in keys.before if keys is not None else []:
            late += self.all_exchange(asked, pair)
        self.with_model = 0 if keys is None else keys.shares
        leaving = self.draws.dropout(number)
        self.rule.begin(number)
        now = [self.ask(self.clients[c], orders[c], leaving[c], rows) for c in asked]
        self.at_work += now
        late += came
        taken = self.gather(now, number, late)
        if self.late == "count":
            taken += [e for e in late if not self.too_long(e)]
        for exchange in now:
            if exchange not in taken:
                exchange.row["failures"] = 1
        for exchange in late:
            self.charge(exchange, rows)
        for exchange in taken:
            self.takes(exchange)
        if len(taken) < self.least and not (self.may_be_empty and not taken):
            return False
        if keys is not None:
            if len(taken) < keys.threshold:
                return False
            self.too_late += self.all_exchange([e.client.number for e in taken], keys.after)
            for exchange in now:
                keys.book(exchange.row, exchange in taken)
        for client in asked:
            rows[client]["energy_joules"] += self.exchanged.pop(client, 0.0)
        for exchange in late + now:
            exchange.row |= self.seconds(exchange, begin)
        for client in told.keys() & rows.keys():
            rows[client]["energy_joules"] += told.pop(client)
        self.unlisted_joules = sum(told.values())
        self.apply(taken, number)
        self.record(number, begin, orders, rows, taken)
        self.sampler.losses |= {e.client.number: e.loss for e in taken}
        return True

    def all_exchange(self, clients: list[int], pair: Pair) -> list[Exchange]:
        """Bits down and up between the server and clients; all wait for the last.

        Returns what came of earlier rounds in the meantime, which is too late.
        """
        down, up = pair
        if not self.settings.get("network"):
            return []
        works = [self.clock.send(c, down, 0, up) for c in clients]
        come: list[Exchange] = []
        while not all(work.over for work in works):
            come += self.go_on(math.inf)
        for exchange in come:
            self.refuse(exchange)
        for client in clients:
            joules = self.clock.network.request(client, down, None, up)
            self.spend(client, joules)
            self.exchanged[client] = self.exchanged.get(client, 0.0) + joules
        return come

    def tells_samples(self) -> dict[int, float]:
        """What each client spends to tell its number of samples."""
        joules = {}
        for c in range(len(self.clients)):
            joules[c] = self.clock.network.request(c, 0.0, None, TOLD)
            self.spend(c, joules[c])
        return joules

    def whom(self, number: int, count: int, free: list[int]) -> list[int]:
        """Whom of those who can be asked the round asks."""
        if not self.sampler.uniform:
            return self.sampler.choose(number, count, free)
        if not self.availability.by_clock:
            return self.draws.cohort(number, count, free)
        return sorted([c for c in self.draws.in_turn(number) if c in free][:count])

    def orders(self, asked: list[int], number: int, time: float) -> dict[int, Order]:
        """What clients are told to do."""
        report = self.sampler.report
        if self.controller is None:
            return {c: Order(self.steps_of(c), None, report=report) for c in asked}
        loss, agreement, updates = None, None, self.server.updates[-2:]
        if self.result.rounds and self.result.rounds[-1]["clients"] > 0:
            loss = self.result.rounds[-1]["train_loss"]
            moved = [u.seen[:ENTRIES] for u in updates]  # SCAFFOLD's variate travels beside them
            agreement = cosine(*moved) if len(moved) == 2 else None
        told = Told(number, self.iteration, time, loss, agreement, self.last)
        orders = self.controller.orders(asked, told)
        return {c: replace(o, report=max(o.report, report)) for c, o in orders.items()}

    def wait_for_clients(
        self, number: int, late: list[Exchange]
    ) -> tuple[list[int], list[Exchange]]:
        """Who can be asked: there, and not at work; and what comes until they are enough.

        Updates that are still to come are replies of this round where ``--late count`` says so.
        """
        came: list[Exchange] = []
        while True:
            at_work = {e.client.number for e in self.at_work}
            counted = at_work | {e.client.number for e in late + came}
            busy = counted if self.late == "count" else at_work
            if self.availability.by_clock:
                here = self.availability.at(self.clock.now)
                there = [c for c in here if c not in self.empty]
            else:
                there = self.availability.by_chance(number, self.least, self.empty)
            free = [c for c in there if c not in busy]
            to_come = len(busy) if self.late == "count" else 0
            if min(len(there), len(free) + to_come) >= self.least:
                return free, came
            come: list[Exchange] = []
            if len(there) < self.least:
                come = self.go_on(self.availability.next(self.clock.now))
            while len(there) >= self.least and not come:  # one of them is at work
                come = self.go_on(math.inf)
            for exchange in come:
                self.refuse(exchange)
            came += come

    def go_on(self, until: float) -> list[Exchange]:
        """To the next event of the clock, or until then: what comes with it, by client."""
        over = self.clock.step(until)
        come = [e for e in self.at_work if e.work in over]  # in the order in which they were asked
        self.at_work = [e for e in self.at_work if e not in come]
        return [e for e in come if not e.leaves]

    def ask(
        self, client: Client, order: Order, chance: float, rows: dict[int, dict[str, Any]]
    ) -> Exchange:
        """Sends a client the model. It trains at once; the clock says when its reply comes."""
        wire, content = self.server.bits(client)
        row = rows[client.number] = blank(client.number)
        row |= {"down_wire_bits": wire + order.bits, "down_content_bits": content}
        row |= {"down_order_bits": order.bits, "down_news_bits": NEWS if client.taken else 0}
        exchange = Exchange(client, order, self.server.version, row)
        iterations, up = None, None
        if chance < self.before:
            exchange.leaves = True
        else:
            self.news(exchange)
            sends, exchange.loss = self.rule.work(
                client, self.server.model, order.n, self.iteration
            )
            exchange.message = client.send(sends, order.p)
            iterations, up = order.n, exchange.message.wire + order.report
            if chance < self.before + self.after:
                exchange.leaves, up = True, None
                row["lost"] += self.is_lost(client)
        down = wire + order.bits + self.with_model
        exchange.work = self.clock.send(client.number, down, iterations, up)
        joules = self.clock.network.request(client.number, down, iterations, up)
        row["energy_joules"] = joules
        self.spend(client.number, joules)
        return exchange

    def news(self, exchange: Exchange) -> None:
        """A client hears what became of its last message: it may take it back."""
        if exchange.client.pending is None:
            return
        exchange.client.take_back()
        exchange.client.gone_back += exchange.client.method.takes_back
        exchange.told = {"returned": exchange.client.gone_back}

    def is_lost(self, client: Client) -> int:
        """1 where an update that is not applied has no place to go back to."""
        return int(not client.method.takes_back)

    def gather(self, now: list[Exchange], number: int, late: list[Exchange]) -> list[Exchange]:
        """Until the round is over: what it takes. Replies of earlier rounds go to ``late``."""
        until = self.clock.now + self.deadline
        expected = [e for e in now if not e.leaves]
        lots = dict(zip(expected, self.draws.lots(number, len(expected)), strict=True))
        waits_for = now if math.isfinite(self.deadline) else expected
        taken: list[Exchange] = []
        refused: list[Exchange] = []

        def is_over() -> bool:
            if len(taken) + len(refused) == self.cohort or self.clock.now >= until:
                return True
            more = self.late == "count" and not now and self.at_work and len(late) < self.least
            return len(taken) + len(refused) == len(waits_for) and not more

        while not is_over():
            come = self.go_on(until)
            first = sorted((e for e in come if e in now), key=lambda e: lots[e])
            room = self.cohort - len(taken) - len(refused)  # one that is too long has its place
            too_long = [e for e in first[:room] if self.too_long(e)]
            taken += [e for e in first[:room] if e not in too_long]
            refused += too_long
            for exchange in too_long:
                self.fails(exchange)
            self.too_late += first[room:]
            late += [e for e in come if e not in now]
            for exchange in [e for e in come if e not in taken + too_long]:
                self.refuse(exchange)
        self.at_work = [e for e in self.at_work if not e.leaves]
        return sorted(taken, key=lambda e: e.client.number)

    def too_long(self, exchange: Exchange) -> bool:
        """Whether ``--max-norm`` refuses an update."""
        assert exchange.message is not None
        return float(np.linalg.norm(exchange.message.seen)) > self.bound

    def fails(self, exchange: Exchange) -> None:
        """A reply that comes in time and is not used: its client will not hear that it was."""
        assert exchange.message is not None
        exchange.row["failed_up_bits"] += exchange.message.wire + exchange.order.report
        exchange.row["lost"] += self.is_lost(exchange.client)

    def refuse(self, exchange: Exchange) -> None:
        """What comes too late may be dropped; its client will hear that it was taken."""
        if self.late != "count" and exchange.client.pending is exchange.message:
            exchange.client.holds = exchange.version
        if self.late == "drop" and exchange.client.pending is exchange.message:
            exchange.client.pending, exchange.client.taken = None, True
            exchange.dropped, exchange.client.gone_back = True, 0

    def charge(self, exchange: Exchange, rows: dict[int, dict[str, Any]]) -> None:
        """What came when its round was over is charged in the round in which it came."""
        client = exchange.client
        exchange.row = rows.setdefault(client.number, blank(client.number) | {"asked": False})
        if self.late == "count":
            if self.too_long(exchange):
                self.fails(exchange)
            else:
                exchange.row["late"] += 1
            return
        assert exchange.message is not None
        exchange.row["failed_up_bits"] += exchange.message.wire + exchange.order.report
        exchange.row["lost"] += 1 if exchange.dropped else self.is_lost(client)

    def takes(self, exchange: Exchange) -> None:
        """A reply that is used."""
        client, row, message = exchange.client, exchange.row, exchange.message
        assert message is not None
        client.pending, client.taken, client.holds = None, True, exchange.version
        client.gone_back = 0
        row["samples"], row["train_loss"] = client.samples, exchange.loss
        for name, count in exchange.told.items():
            row[name] += count
        row["up_wire_bits"] = message.wire + exchange.order.report
        row["up_content_bits"] = message.content
        row["up_report_bits"] = exchange.order.report
        self.last[client.number] = (message.wire, int(message.sent.sum()))
        row["up_sent"] = int(message.sent.sum())

    def seconds(self, exchange: Exchange, begin: float) -> dict[str, float]:
        """The parts of a client's work that fall into the round."""
        spent = exchange.work.parts(begin, self.clock.now)
        return {f"sim_{part}_seconds": spent[part] for part in PARTS}

    def apply(self, taken: list[Exchange], number: int) -> None:
        """The model moves by what was taken."""
        uplinks = []
        for e in sorted(taken, key=lambda e: e.client.number):
            assert e.message is not None
            uplinks.append(Uplink(e.client.number, e.message.seen, e.client.samples, e.order.n))
        if uplinks:
            change = self.rule.change(self.server.model, uplinks, number, self.iteration)
            self.server.move(change)

    def record(
        self,
        number: int,
        begin: float,
        orders: dict[int, Order],
        rows: dict[int, dict[str, Any]],
        taken: list[Exchange],
    ) -> None:
        """The rows of the round."""
        used = [e.client.number for e in taken]
        for client in rows:
            rows[client]["used"] = client in used
        nobody = 0 if self.unlike else min(self.settings["temporal"], self.left)
        n = max((o.n for o in orders.values()), default=nobody)
        if self.unlike:
            for client in rows:  # of one whose late upload is charged, and no more, none
                trains = client in orders or rows[client]["used"]
                rows[client]["local_iterations"] = self.steps_of(client) if trains else 0
        row = self.totals(number, begin, [rows[c] for c in sorted(rows)], n)
        if self.controller is not None:
            typed = 1.0 if self.clients[0].method.p is None else self.clients[0].method.p
            for client, order in orders.items():
                rows[client]["sent_fraction"] = typed if order.p is None else order.p
                rows[client]["local_iterations"] = order.n
            row["sent_fraction"] = np.mean([rows[c]["sent_fraction"] for c in orders])

    @property
    def left(self) -> int:
        """Local iterations that are left."""
        return int(self.settings["iterations"] - self.iteration)

    def totals(
        self, number: int, begin: float, rows: list[dict[str, Any]], n: int
    ) -> dict[str, Any]:
        """The row of a round of n iterations, from its clients' rows."""
        row: dict[str, Any] = {"round": number, "local_iterations": n}
        if self.unlike:
            did = [r["local_iterations"] for r in rows if r["used"]]
            row["used_iterations"] = float(np.mean(did)) if did else 0.0
            self.behind += row["used_iterations"]
            self.iteration = math.floor(self.behind + 0.5)
        else:
            self.iteration += n
        loss = self.rule.loss(self.server.model)
        row |= {"iteration": self.iteration, "metric": loss, "loss": loss}
        row |= {"up_sampler_bits": self.told_samples, "unlisted_joules": self.unlisted_joules}
        row |= {"sim_seconds": self.clock.now - begin, "sim_end_seconds": self.clock.now}
        return self.result.add(row, rows, len(self.clients))


def simulate(settings: dict[str, Any], config: RunConfig, known: Sequence[str]) -> Result:
    """A run by the twin."""
    from tests.support.twin.asynchronous import Asynchronous
    from tests.support.twin.sharded import Sharded
    from tests.support.twin.workers import AWAY, Workers

    sharded = Workers if AWAY & {*settings} else Sharded
    kinds = {"fedbuff": Asynchronous, "fedasync": Asynchronous, "sharded": sharded}
    kind = kinds.get(call(settings.get("strategy", "dsgd"))[0], Federation)
    return kind(settings, config, known).run()
