"""What every algorithm of the table keeps: a pure step, a memory that travels, a text, learning."""

import inspect
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch
from flwr.app import ConfigRecord

from compressors import Raw, State, compress, decompress
from fedsim import run
from fedsim.federation.server import make_strategy
from fedsim.settings.strategies import STRATEGIES, adopt_strategy, algorithm_of, kind
from strategies import (
    DSGD,
    Asynchronous,
    Compressed,
    DelayedDSGD,
    Downlink,
    RoundInfo,
    RoundTraffic,
    Uplink,
)
from strategies.algorithms.base import PLAIN
from strategies.algorithms.flowers import Flowers
from tests.support.linear import record
from tests.support.runs import small

TIMED = {"network": "4g, compute=20ms"}
NEEDS: dict[str, dict[str, Any]] = {
    "majority": {"method": "sign(0.01)"},
    "innetwork": {"method": "cnat(5, 0)"},
    "gradients": {"temporal": 1, "method": "raw"},
    "fedbuff": TIMED | {"buffer_size": 3},
    "fedasync": TIMED,
    "sharded": TIMED | {"temporal": 1, "method": "raw"},
    "ef21": {"method": "ef21(topk(0.1) | float32)"},
    "diana": {"method": "diana(qsgd(7))"},
    "marina": {"method": "marina(qsgd(7), 0.5)", "temporal": 1},
    "permk": {"method": "permk(4)"},
    "fetchsgd": {"method": "fetchsgd(0.05, 5, 3000)", "momentum": 0.0},
    "secagg": {"method": "secagg(16, 0.5, 18)"},
    "scaffold": {"momentum": 0.0},
    "fedrep": {"temporal": 10},
    "trimmed_mean": {"clients": 10},
    "krum": {"clients": 5},
    "dp": {"strategy": "dp(noise=0.01, clip=1.0)"},  # the default has noise for thousands
}
STEPPING = [name for name in STRATEGIES if not issubclass(kind(name), Flowers)]
MODEL = {"w": torch.linspace(-1, 1, 12).view(3, 4), "b": torch.zeros(5)}


def strategy_of(name: str) -> Any:
    return make_strategy(small(**{"strategy": name, **NEEDS.get(name, {})}))


def coming(strategy: Any, model: State, number: int) -> dict[int, Uplink]:
    """What the clients of a round send: random updates by the strategy's method."""
    clients = [number % 4] if isinstance(strategy, Asynchronous) else range(4)
    generator, ups = torch.Generator().manual_seed(number), {}
    for client in clients:
        update = {n: 0.1 * torch.randn(x.shape, generator=generator) for n, x in model.items()}
        mask = {"mask/mask": torch.arange(17)} if strategy.rule.needs_method == "secagg" else None
        packet, _ = compress(strategy.uplink, update, mask, seed=number)
        reads = strategy.rule.reads(strategy.uplink)
        ups[client] = Uplink(packet.payload, {}, decompress(reads, packet.payload, model), {})
    return ups


def stepped(strategy: Any, memory: State, model: State, number: int) -> tuple[Any, State]:
    ups = coming(strategy, model, number)
    downs = {client: Downlink(b"", "model", {}) for client in ups}
    for side in strategy.rule.sides(7):
        traffic = RoundTraffic(number, side.write(number, downs), ups)
        side.close(traffic)
        downs = traffic.downlinks
    payloads = {client: down.side_payloads for client, down in downs.items()}
    now = RoundInfo(
        number,
        7,
        4,
        strategy.uplink,
        4,
        age=dict.fromkeys(ups, 1),
        sent=dict.fromkeys(ups, model),
        side_payloads=payloads,
    )
    given = (memory, model, *(up.update for up in ups.values()))  # payloads are bytes
    before = deepcopy(given)
    update, after = strategy.rule.step(ups, memory, model, now)
    assert all(map(same, given, before))
    return update, after


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(x, other[n]) for n, x in one.items())


@pytest.mark.parametrize("name", STEPPING)
def test_a_step_changes_nothing_that_it_is_given_and_gives_the_same_again(name: str) -> None:
    strategy = strategy_of(name)
    model = dict(strategy.rule.client.payload_template(MODEL))
    memory: State = {}
    for number in range(1, 6):
        update, after = stepped(strategy, memory, model, number)
        again, also = stepped(strategy, memory, model, number)
        assert same(after, also) and (update is None) == (again is None)
        if update is not None:
            assert update.keys() == model.keys() and same(update, again)
            model = {n: x + update[n] for n, x in model.items()}
        memory = after


@pytest.mark.parametrize("name", [n for n in STEPPING if kind(n).clock == "rounds"])
def test_its_memory_is_in_the_strategy_s_state(name: str) -> None:
    one, other = strategy_of(name), strategy_of(name)
    assert isinstance(one, DelayedDSGD)
    model = dict(one.rule.client.payload_template(MODEL))
    for strategy in (one, other):
        strategy.open(model)
    for number in (1, 2):
        one.memory = stepped(one, one.memory, model, number)[1]
    other.restore(*one.state())
    assert same(one.memory, other.memory)


@pytest.mark.parametrize("name", STRATEGIES)
def test_it_travels_has_a_text_and_says_where_it_is_from(name: str) -> None:
    rule = algorithm_of(name)
    assert cloudpickle.loads(cloudpickle.dumps(rule)) == rule == algorithm_of(adopt_strategy(rule))
    assert adopt_strategy(rule) == name
    told = inspect.cleandoc(type(rule).__doc__ or "")
    assert "Source:" in told or isinstance(rule, Flowers)
    parents = "".join(base.__doc__ or "" for base in type(rule).__mro__)
    named = {f.name for f in fields(rule)}
    assert isinstance(rule, Flowers) or all(f"{field}:" in parents for field in named)


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_it_learns(name: str, tmp_path: Path) -> None:
    """Ten classes: a tenth by chance. Those whose server has a momentum of its own take longer."""
    needs = NEEDS.get(name, {})
    iterations = 200 if name in ("fetchsgd", "majority", "fedadagrad") else 120
    settings = {"method": "raw", "iterations": iterations, "temporal": 5} | needs
    summary = run(small(**{"strategy": name, **settings}), tmp_path).summary
    assert summary["metric"] > 0.4, summary["metric"]


WITH_HALVES = {name for name in STEPPING if algorithm_of(name).client is not PLAIN}


@pytest.mark.parametrize("name", sorted(WITH_HALVES))
def test_flower_s_loop_refuses_what_a_client_mod_lacks(name: str) -> None:
    """It would run and be another algorithm: the plain mean of all layers for ``fedper``."""
    assert {"scaffold", "fedper", "diloco", "permk", "marina", "secagg"} <= WITH_HALVES
    with pytest.raises(ValueError, match=rf"rule is {kind(name).__name__}\("):
        strategy_of(name).configure_train(1, record([0.0, 0.0]), ConfigRecord(), None)


def test_flower_s_loop_refuses_nova() -> None:
    """Nobody says how many local iterations an app does: it would be the mean by samples."""
    strategy: Any = DelayedDSGD(Raw(), clients=2, rule=DSGD("nova"))
    with pytest.raises(ValueError, match="weighting is 'nova'.*give uniform or samples"):
        strategy.configure_train(1, record([0.0, 0.0]), ConfigRecord(), None)


def test_flower_s_are_built_with_their_own_defaults() -> None:
    """Where nobody gives a rate: what Flower's class has is what is told."""
    for name in STRATEGIES:
        rule = algorithm_of(name)
        if isinstance(rule, Flowers):
            strategy = strategy_of(name)
            assert isinstance(strategy, Compressed)
            assert strategy.strategy.fraction_evaluate == 0  # fedsim's server scores its model
            plain = inspect.signature(type(strategy.strategy)).parameters
            for field, theirs in rule.named.items():
                if field == "server_lr":
                    assert getattr(rule, field) == plain[theirs].default
