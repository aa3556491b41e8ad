"""``client_mod`` around a PyTorch app whose model has BatchNorm: no statistics in an update."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from torch import nn

from compressors import Raw, UpdateError, sbc
from fedsim.engines.local import LocalGrid
from strategies import Buffers, Compressed, DelayedDSGD, TooFewReplies, answer_partition, client_mod
from strategies.channel.payload import BUFFERS
from tests.support.linear import client_of

BITS = 32 * 4 + 24  # of two means, two variances and a header
COUNT = "1.num_batches_tracked"


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))


def parameters() -> ArrayRecord:
    return ArrayRecord({n: x.detach() for n, x in model().named_parameters()})


def statistics() -> dict[str, torch.Tensor]:
    return {n: x for n, x in model().named_buffers() if x.is_floating_point()}


class Quickstart:
    """Flower's quickstart: load all, train a step, answer all. ``seen``: what each client got."""

    def __init__(self) -> None:
        self.seen: dict[int, list[dict[str, torch.Tensor]]] = {0: [], 1: []}
        self.left: dict[int, list[dict[str, torch.Tensor]]] = {0: [], 1: []}

    def train(self, message: Message, context: Context) -> Message:
        """One step of SGD on data that follow from the client and the round."""
        client, net = client_of(context), model()
        state = message.content.array_records["arrays"].to_torch_state_dict()
        net.load_state_dict(state)
        self.seen[client].append(state)
        generator = torch.Generator().manual_seed(10 * len(self.seen[client]) + client)
        x = torch.randn(8, 2, generator=generator) + client
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        (net(x) - x[:, :1]).square().mean().backward()
        optimizer.step()
        self.left[client].append({n: v.clone() for n, v in net.state_dict().items()})
        content = RecordDict(
            {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": 8})}
        )
        return Message(content, reply_to=message)

    @staticmethod
    def evaluate(message: Message, context: Context) -> Message:
        """Flower's quickstart again: all that is loaded is there. The score is the first mean."""
        net = model()
        net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        score = float(net.state_dict()["1.running_mean"][0])
        metrics = MetricRecord({"num-examples": 1, "score": score})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)


def app_of(mod: Any, train: Callable[[Message, Context], Message]) -> ClientApp:
    app = ClientApp(mods=[mod] if mod else [])
    app.train()(train)
    answer_partition(app)
    return app


def names() -> list[str]:
    return [name for name, _ in model().named_buffers()]


def rounds(count: int, up: Any, buffers: Buffers | None, known: list[str]) -> tuple[Any, Any, Any]:
    """So many rounds of FedAvg with two clients; strategy, app and every round's trip."""
    quick = Quickstart()
    template = ArrayRecord(model().state_dict()) if known else parameters()
    mod = client_mod(up, Raw(), template, buffers=known)
    grid = LocalGrid(app_of(mod, quick.train), 2)
    inside = FedAvg(fraction_evaluate=0, min_train_nodes=2, min_available_nodes=2)
    strategy = Compressed(inside, up, clients=2, buffers=buffers)
    arrays, trips = parameters(), []
    for number in range(1, count + 1):
        messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        after, _ = strategy.aggregate_train(number, grid.send_and_receive(messages))
        assert after is not None
        arrays = after
        trips.append(strategy.channel.traffic)
    return strategy, quick, trips


@pytest.mark.parametrize("up", [Raw(), sbc(0.2)], ids=["raw", "sbc"])
def test_the_mean_travels_in_payloads_of_its_own(up: Any) -> None:
    strategy, quick, trips = rounds(3, up, Buffers(statistics()), names())
    for number, traffic in enumerate(trips):
        assert [8 * len(u.side_payloads[BUFFERS]) for u in traffic.uplinks.values()] == [BITS, BITS]
        downs = traffic.downlinks.values()
        assert [8 * len(d.side_payloads[BUFFERS]) for d in downs] == [BITS, BITS]
        assert not {n for u in traffic.uplinks.values() for n in u.update} & set(names())
        for name in statistics():  # what the server sends next, or holds in the end
            mean = (quick.left[0][number][name] + quick.left[1][number][name]) / 2
            later = [s[number + 1][name] for s in quick.seen.values() if number < 2]
            for found in [*later] or [strategy.buffers.values[name]]:
                torch.testing.assert_close(found, mean)
    counts = [[int(state[COUNT]) for state in quick.seen[client]] for client in (0, 1)]
    assert counts == [[0, 1, 2], [0, 1, 2]] and quick.seen[0][0][COUNT].dtype == torch.int64


def test_local_statistics_stay_with_their_client() -> None:
    local = Buffers(statistics(), down=False, up=lambda number: number == 2)
    strategy, quick, trips = rounds(3, Raw(), local, names())
    for client in (0, 1):
        for number in (0, 1):
            left, seen = quick.left[client][number], quick.seen[client][number + 1]
            assert all(torch.equal(left[name], seen[name]) for name in names())
    ups = [[8 * len(u.side_payloads.get(BUFFERS, b"")) for u in t.uplinks.values()] for t in trips]
    assert ups == [[0, 0], [BITS, BITS], [0, 0]]
    downs = [down for traffic in trips for down in traffic.downlinks.values()]
    assert not any(BUFFERS in down.side_payloads for down in downs)
    for name, x in strategy.buffers.values.items():
        torch.testing.assert_close(x, (quick.left[0][1][name] + quick.left[1][1][name]) / 2)


def started(strategy: Any, mods: list[Any], initial: ArrayRecord, starts: int = 1) -> Any:
    """The result of the last of so many starts of three rounds, and the app; clients evaluate."""
    quick, app = Quickstart(), ClientApp()
    app.train(mods=mods)(quick.train)
    app.evaluate(mods=mods)(quick.evaluate)
    grid = LocalGrid(app, 2)
    results = [strategy.start(grid, initial, num_rounds=3) for _ in range(starts)]
    return results[-1], quick


@pytest.mark.parametrize("begin", ["whole", "parameters"])
def test_the_app_evaluates_and_ends_with_what_flower_would_give_it(begin: str) -> None:
    """Raw both ways is FedAvg, statistics included; the counts of BatchNorm are in no mean."""
    whole = ArrayRecord(model().state_dict())
    plain, _ = started(FedAvg(), [], whole)
    mod = client_mod(Raw(), Raw(), whole, buffers=names())
    strategy = Compressed(FedAvg(), Raw(), buffers=Buffers(statistics()))
    mine, _ = started(strategy, [mod], whole if begin == "whole" else parameters())
    model().load_state_dict(mine.arrays.to_torch_state_dict())  # nothing is missing
    for name, x in plain.arrays.items():
        if name != COUNT:
            found = torch.from_numpy(mine.arrays[name].numpy())
            torch.testing.assert_close(found, torch.from_numpy(x.numpy()))
    scores = [one.evaluate_metrics_clientapp[3]["score"] for one in (plain, mine)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5) and scores[0] != 0


def test_a_client_that_keeps_its_statistics_evaluates_with_them() -> None:
    whole = ArrayRecord(model().state_dict())
    mod = client_mod(Raw(), Raw(), whole, buffers=names())
    kept = Buffers(statistics(), down=False, up=lambda number: False)
    result, quick = started(Compressed(FedAvg(), Raw(), buffers=kept), [mod], whole)
    own = [float(quick.left[client][2]["1.running_mean"][0]) for client in (0, 1)]
    score = result.evaluate_metrics_clientapp[3]["score"]
    assert own[0] != own[1] and score == pytest.approx(sum(own) / 2)


def test_who_has_not_trained_in_this_start_evaluates_without_the_last_ones_statistics() -> None:
    """Of two clients that trained in one start, one trains in the next, and both evaluate."""
    whole, own = ArrayRecord(model().state_dict()), Buffers(statistics(), False, lambda _: False)
    mod = client_mod(Raw(), Raw(), whole, buffers=names())
    quick, app, evaluated = Quickstart(), ClientApp(), dict[int, tuple[float, list[str]]]()

    def evaluate(message: Message, context: Context) -> Message:
        mean = message.content.array_records["arrays"]["1.running_mean"].numpy()
        evaluated[client_of(context)] = float(mean[0]), [*message.content]
        return quick.evaluate(message, context)

    app.train(mods=[mod])(quick.train)
    app.evaluate(mods=[mod])(evaluate)
    answer_partition(app)
    grid = LocalGrid(app, 2)
    for cohort in (2, 1):
        inside = FedAvg(min_train_nodes=1, min_available_nodes=1)
        strategy = Compressed(inside, Raw(), buffers=own, clients=2, cohort=cohort)
        strategy.start(grid, whole, num_rounds=1)
        trains = sorted(strategy.channel.traffic.uplinks)
        for client in (0, 1):
            left = float(quick.left[client][-1]["1.running_mean"][0]) if client in trains else 0.0
            assert evaluated[client] == (left, ["arrays", "config"])
            assert quick.left[client][0]["1.running_mean"][0] != 0
        assert len(trains) == cohort


def test_a_second_start_begins_with_the_first_ones_statistics() -> None:
    whole, own = ArrayRecord(model().state_dict()), Buffers(statistics())
    mod = client_mod(Raw(), Raw(), whole, buffers=names())
    strategy = Compressed(FedAvg(), Raw(), buffers=own)
    _, quick = started(strategy, [mod], parameters(), starts=2)
    _, other = started(Compressed(FedAvg(), Raw(), buffers=own), [mod], parameters())
    for seen in (quick.seen[0][0], quick.seen[0][3], other.seen[0][0]):
        assert all(torch.equal(seen[name], x) for name, x in model().named_buffers())


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (
            "client",
            "strategy has .*buffers none; client_mod has .*buffers 1.running_mean 1.running",
        ),
        ("server", "strategy has .*buffers 1.running_mean.*; client_mod has .*buffers none"),
        ("downlink", "strategy has uplink raw, downlink ef.*; client_mod has .*downlink raw"),
    ],
)
def test_ends_that_are_built_unlike_say_so(at: str, said: str) -> None:
    whole = ArrayRecord(model().state_dict())
    known = [] if at == "server" else names()
    mod = client_mod(Raw(), Raw(), whole if known else parameters(), buffers=known)
    buffers = None if at == "client" else Buffers(statistics())
    down = sbc(0.2) if at == "downlink" else Raw()
    strategy = Compressed(FedAvg(), Raw(), down, buffers=buffers)
    with pytest.raises(TooFewReplies, match=said):
        started(strategy, [mod], parameters())


def test_a_whole_state_dict_is_no_update() -> None:
    whole = ArrayRecord(model().state_dict())
    with pytest.raises(UpdateError, match=rf"'{COUNT}' is int64.*buffers="):
        client_mod(sbc(0.1), Raw(), whole)
    grid = LocalGrid(app_of(None, Quickstart().train), 2)
    for strategy in (Compressed(FedAvg(), Raw(), clients=2), DelayedDSGD(Raw(), clients=2)):
        with pytest.raises(UpdateError, match=rf"'{COUNT}' is int64.*buffers=Buffers"):
            list(strategy.configure_train(1, whole, ConfigRecord(), grid))


def test_names_that_the_template_lacks() -> None:
    with pytest.raises(ValueError, match="buffers names running_mean: the model"):
        client_mod(Raw(), Raw(), parameters(), buffers=["running_mean"])


def test_an_app_that_answers_parameters_alone() -> None:
    def bare(message: Message, context: Context) -> Message:
        content = RecordDict({"arrays": parameters()})
        return Message(content, reply_to=message)

    mod = client_mod(Raw(), Raw(), ArrayRecord(model().state_dict()), buffers=names())
    context = Context(1, 1, {"partition-id": 0}, RecordDict(), {})
    grid = LocalGrid(app_of(mod, bare), 2)
    strategy = Compressed(FedAvg(), Raw(), clients=2, buffers=Buffers(statistics()))
    message = next(iter(strategy.configure_train(1, parameters(), ConfigRecord(), grid)))
    with pytest.raises(ValueError, match="lacks 1.running_mean, 1.running_var, 1.num_batches"):
        mod(message, context, bare)
    assert not context.state
