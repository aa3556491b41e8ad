"""Messages that share links as they come and go, by hand and against what is known beforehand."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fedsim.network.agenda import Agenda
from fedsim.network.flows import Flows
from fedsim.network.rates import Rate
from tests.support.filling import by_max_min, filled, known_beforehand, transfers

Message = tuple[float, float, Sequence[str]]
"""When it begins, its bits, and the links of its path."""

Draw = Callable[[np.random.Generator], tuple[list[str], dict[str, float]]]
"""Paths over links and what each link takes, drawn."""


@pytest.mark.parametrize(
    ("paths", "capacity", "rates"),
    [
        (["as", "bs"], {"a": 2, "b": 3, "s": 5}, [2, 3]),  # just enough
        (["as", "bs"], {"a": 2, "b": 9, "s": 5}, [2, 3]),
        (["as", "bs", "cs"], {"a": 9, "b": 1, "c": 9, "s": 6}, [2.5, 1, 2.5]),
        (["xy", "x", "y"], {"x": 4, "y": 10}, [2, 2, 8]),
        (["xy", "x", "y"], {"x": 10, "y": 4}, [2, 8, 2]),
        (["xy", "yz", "zx"], {"x": 2, "y": 6, "z": 4}, [1, 3, 1]),
        (["ab", "ac", "bc"], {"a": 3, "b": 0, "c": math.inf}, [0, 3, 0]),
        (["a", "b"], {"a": math.inf, "b": 2}, [math.inf, 2]),
        ([], {}, []),
    ],
)
def test_rates_over_several_links(
    paths: list[str], capacity: dict[str, float], rates: list[float]
) -> None:
    """The links fill up together; a message stops at the first of its own that is full."""
    assert by_max_min(paths, {key: float(x) for key, x in capacity.items()}) == rates


def capacities(draw: np.random.Generator, count: int) -> list[float]:
    """Some small whole numbers and 0, so that links are full at once; or tenths; or any."""
    tenths = draw.integers(1, 30, count) / 10
    kinds = [draw.integers(0, 4, count), tenths, draw.lognormal(size=count)]
    return [float(x) for x in kinds[int(draw.integers(3))]]


def star(draw: np.random.Generator) -> tuple[list[str], dict[str, float]]:
    """Links of one message each, and a server's that all share; it may have just enough."""
    count = int(draw.integers(1, 40))
    own = capacities(draw, count) if draw.random() < 0.7 else [float(draw.lognormal())] * count
    server = float(draw.choice([sum(own), count * own[0], draw.lognormal(), math.inf]))
    names = [chr(ord("a") + place) for place in range(count)]
    capacity = dict(zip(names, own, strict=True)) | {"S": server}
    return [f"{name}S" for name in draw.permutation(names)], capacity


def mesh(draw: np.random.Generator) -> tuple[list[str], dict[str, float]]:
    """Messages from any worker to any, which share the links of both."""
    workers, count = int(draw.integers(2, 8)), int(draw.integers(1, 40))
    names = "ABCDEFGH"[:workers] + "abcdefgh"[:workers]
    capacity = dict(zip(names, capacities(draw, 2 * workers), strict=True))
    pairs = draw.integers(0, workers, (count, 2))
    return [names[a] + names[workers + b] for a, b in pairs], capacity


def anything(draw: np.random.Generator) -> tuple[list[str], dict[str, float]]:
    """Paths over up to four links, or over none; some links have no limit."""
    names = "abcdefghij"[: int(draw.integers(1, 11))]
    limits = [math.inf if draw.random() < 0.1 else x for x in capacities(draw, len(names))]
    counts = draw.integers(0, min(len(names), 4) + 1, 20)
    paths = ["".join(draw.choice([*names], n, replace=False)) for n in counts]
    return paths, dict(zip(names, limits, strict=True))


@pytest.mark.parametrize("kind", [star, mesh, anything])
def test_rates_are_those_of_filling_link_by_link(kind: Draw) -> None:
    """To 1e-12: stars are filled in another order."""
    for seed in range(100):
        paths, capacity = kind(np.random.default_rng(seed))
        slow = filled(paths, capacity)
        assert by_max_min(paths, capacity) == pytest.approx(slow, rel=1e-12), seed


def ends(messages: Sequence[Message], rates: dict[str, Rate]) -> list[float]:
    """When each message is there; the same where clock and links were stored after each record."""
    times = [_ends(messages, rates, stored) for stored in (False, True)]
    assert times[0] == times[1]
    return times[0]


def _ends(messages: Sequence[Message], rates: dict[str, Rate], stored: bool) -> list[float]:
    agenda, arrived = Agenda(), [math.nan] * len(messages)
    flows = Flows(agenda, rates.__getitem__)
    for place, (start, _, _) in enumerate(messages):
        agenda.after(start, "send", place)
    while agenda:
        if stored:
            states = json.loads(json.dumps([agenda.state(), flows.state()]))
            agenda = Agenda()
            flows = Flows(agenda, rates.__getitem__)
            agenda.restore(states[0])
            flows.restore(states[1])
        name, *arguments = agenda.next()
        if name == "send":
            _, bits, path = messages[arguments[0]]
            flows.send(bits, [*path], ("sent", *arguments))
        elif name == "sent":
            arrived[arguments[0]] = agenda.now
        else:
            flows.handlers[name](*arguments)
    return arrived


@pytest.mark.parametrize("seed", range(6))
def test_one_shared_link_takes_as_long_as_where_all_is_known_beforehand(seed: int) -> None:
    """Links that are constant, and links whose rate changes, again and again."""
    draw = np.random.default_rng(seed)
    starts, bits, caps = draw.uniform(0, 3, 5), draw.uniform(1, 20, 5), draw.uniform(1, 6, 5)
    own = [
        Rate.constant(c) if i % 2 else Rate((0.0, 1.0, 2.5), (c, c / 2, 2 * c), 4.0)
        for i, c in enumerate(caps)
    ]
    rates = {f"{i}": rate for i, rate in enumerate(own)} | {"all": Rate.constant(7.0)}
    messages = [(starts[i], bits[i], (f"{i}", "all")) for i in range(5)]
    beforehand = known_beforehand(starts, bits, own, 7.0)
    np.testing.assert_allclose(ends(messages, rates), beforehand, rtol=1e-12)
    np.testing.assert_allclose(transfers(starts, bits, own, 7.0), beforehand, rtol=1e-12)
    alone = known_beforehand(starts, bits, own, math.inf)
    np.testing.assert_allclose(transfers(starts, bits, own, math.inf), alone, rtol=1e-12)


def test_a_message_waits_while_its_link_stands_still() -> None:
    """a has nothing for 2 s, then 4 bit/s, which all share; a message without bits does not wait.

    Two of b have 2 each from 1 s on; at 2 s the first has 2 bits left, the other 6, a 8: 4/3 each,
    the first 3.5 s; then 2 each: 5.5 s; a has 2 left, alone: 6 s.
    """
    rates = {"a": Rate((0.0, 2.0), (0.0, 4.0)), "b": Rate.constant(4.0), "s": Rate.constant(4.0)}
    messages = [(0.0, 8.0, "as"), (0.0, 8.0, "bs"), (1.0, 8.0, "bs"), (0.5, 0.0, "as")]
    assert ends(messages, rates) == pytest.approx([6, 3.5, 5.5, 0.5], abs=1e-9)


def test_a_message_takes_the_upload_link_of_one_and_the_download_link_of_the_other() -> None:
    """Worker 0 pushes 6 bits to 1 and 6 to 2, 4 bit/s up; 2 takes 1 bit/s, of which a pull from 1
    has a half: 3 s for 1.5 bits. Then 2 has 1 bit/s for the push: 4.5 left, until 7.5 s. The push
    to 1 has the 3.5 bit/s that are left.
    """
    rates = {name: Rate.constant(x) for name, x in {"u0": 4, "u1": 9, "d1": 9, "d2": 1}.items()}
    messages = [(0.0, 6.0, ("u0", "d1")), (0.0, 6.0, ("u0", "d2")), (0.0, 1.5, ("u1", "d2"))]
    assert ends(messages, rates) == pytest.approx([6 / 3.5, 7.5, 3], abs=1e-9)


def test_links_without_a_limit_take_no_time() -> None:
    messages = [(1.0, 8.0, "a"), (1.0, 0.0, "a")]
    assert ends(messages, {"a": Rate.constant(math.inf)}) == [1, 1]


def test_a_link_that_stays_at_nothing_is_told() -> None:
    with pytest.raises(RuntimeError, match="stays at 0 bits per second"):
        ends([(0.0, 1.0, "a")], {"a": Rate.constant(0.0)})


def test_links_that_nothing_takes_any_more_are_forgotten() -> None:
    """300 messages one after the other, each over a link of its own, as one of 1 bit waits."""
    rates = {f"{i}": Rate.constant(1.0 + i) for i in range(300)} | {"all": Rate.constant(1e3)}
    agenda, arrived = Agenda(), list[float]()
    flows = Flows(agenda, rates.__getitem__)

    def send(number: int) -> None:
        flows.send(1.0 + number, [f"{number}", "all"], ("sent", number))

    def sent(number: int) -> None:
        arrived.append(agenda.now)
        if number and number < 299:
            send(number + 1)

    does: dict[str, Callable[..., Any]] = flows.handlers | {"sent": sent}
    send(0)
    send(1)
    while agenda:
        name, *arguments = agenda.next()
        does[name](*arguments)
    assert arrived == pytest.approx([1.0, *range(1, 300)])
    assert len(flows._rates) < 100


def test_a_message_that_is_given_up_leaves_its_share_to_the_others() -> None:
    """6 bit/s for two of 12 bits: at 1 s both have 9 left, and B has it all then: 2.5 s."""
    agenda, arrived = Agenda(), dict[str, float]()
    flows = Flows(agenda, lambda link: Rate.constant(6.0))
    does: dict[str, Callable[..., Any]] = flows.handlers | {
        "sent": lambda who: arrived.update({who: agenda.now}),
        "give up": lambda who: flows.cancel(("sent", who)),
    }
    for who in "AB":
        flows.send(12.0, ["link"], ("sent", who))
    flows.send(12.0, ["link"], ("sent", "C"))
    flows.cancel(("sent", "C"))  # before it has begun
    agenda.at(1.0, "give up", "A")
    while agenda:
        name, *arguments = agenda.next()
        does[name](*arguments)
    assert arrived == {"B": 2.5}
