"""Messages that share links as they come and go."""

import math

import numpy as np
import pytest
import simpy

from fedsim.network.flows import Flows, max_min
from fedsim.network.rates import Rate
from fedsim.network.sharing import transfers


def ends(
    starts: np.ndarray, bits: np.ndarray, paths: list[list[str]], rates: dict[str, Rate]
) -> np.ndarray:
    """When each message is there."""
    env = simpy.Environment()
    flows, found = Flows(env, rates), np.zeros(len(starts))

    def send(place: int) -> simpy.events.ProcessGenerator:
        yield env.timeout(starts[place])
        yield flows.send(bits[place], paths[place])
        found[place] = env.now

    for place in range(len(starts)):
        env.process(send(place))
    env.run()
    return found


@pytest.mark.parametrize("seed", range(6))
def test_one_shared_link_takes_as_long_as_where_all_is_known_beforehand(seed: int) -> None:
    draw = np.random.default_rng(seed)
    starts, bits, caps = draw.uniform(0, 3, 5), draw.uniform(1, 20, 5), draw.uniform(1, 6, 5)
    own = [
        Rate.constant(c) if i % 2 else Rate((0.0, 1.0, 2.5), (c, c / 2, 2 * c), 4.0)
        for i, c in enumerate(caps)
    ]
    rates = {f"{i}": rate for i, rate in enumerate(own)} | {"all": Rate.constant(7.0)}
    found = ends(starts, bits, [[f"{i}", "all"] for i in range(5)], rates)
    np.testing.assert_allclose(found, transfers(starts, bits, own, 7.0), rtol=1e-12)


def test_both_ends_of_a_message_limit_it() -> None:
    """a sends to b and c at 4 bit/s in all; c takes 1 bit/s, so that b's message has 3."""
    rates = {name: Rate.constant(x) for name, x in {"a": 4.0, "b": 9.0, "c": 1.0}.items()}
    found = ends(np.zeros(2), np.array([6.0, 4.0]), [["a", "b"], ["a", "c"]], rates)
    assert found.tolist() == [2, 4]


def test_links_without_a_limit_take_no_time() -> None:
    assert max_min([["a"], ["a"]], {"a": math.inf}) == [math.inf, math.inf]
    found = ends(np.ones(2), np.array([8.0, 0.0]), [["a"], ["a"]], {"a": Rate.constant(math.inf)})
    assert found.tolist() == [1, 1]


def test_a_link_that_stays_at_nothing_is_told() -> None:
    with pytest.raises(RuntimeError, match="stays at 0 bits per second"):
        ends(np.zeros(1), np.ones(1), [["a"]], {"a": Rate.constant(0.0)})
