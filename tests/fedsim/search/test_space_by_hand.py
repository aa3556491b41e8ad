"""The space of a search by hand: its limits, a point as it is run, first points, what is left out.

The model has 1000 entries, the task's rate is 0.02, and a message has as many bits as a made-up
table says: 1000 p of a method with a fraction, else 1000.
"""

from dataclasses import replace
from math import log10
from typing import Any

import pytest

from fedsim import RunConfig, UsageError
from fedsim.ground.version import VERSION
from fedsim.search.finals import SeedScores
from fedsim.search.goal import Goal
from fedsim.search.methods import CODERS, OWN_CODER, max_fraction, select_methods
from fedsim.search.search import _base, _name, to_toml
from fedsim.search.space import Sizes, Space, fitting, why_not
from tests.support.madesearch import finalist

BASE = RunConfig.of(method="raw", temporal=1, iterations=100, validation=0.2, seed=7)
BUDGET = Goal(True, "accuracy", budget=2000.0)
FRONT = Goal(True, "accuracy")
POINT = {"method": "sbc", "coder": OWN_CODER, "temporal": 10, "gradient": 0.1, "lr": 0.02}


def bits(method: str, p: float | None, coder: str) -> int:
    return 1000 if p is None else round(1000 * p)


def sizes(entries: int = 1000, rate: float = 0.02) -> Any:
    made: Any = Sizes.__new__(Sizes)  # without a model
    made.entries, made.rate, made.bits = entries, rate, bits
    return made


def space(base: RunConfig = BASE, goal: Goal = BUDGET, **of: Any) -> Space:
    return Space(base, goal, ("sbc", "raw", "dgc({p})", "cocktailsgd"), sizes(**of))


# --- limits -------------------------------------------------------------------------------------


def test_the_limits_of_n_p_and_the_rate() -> None:
    """n up to half of 100 iterations; p from one of 1000 entries; the rate within a tenth and ten
    times of the task's."""
    assert space().limits == {
        "temporal": (1, 50),
        "gradient": (0.001, 1.0),
        "lr": (pytest.approx(0.002), pytest.approx(0.2)),
    }
    assert space(replace(BASE, iterations=1)).limits["temporal"] == (1, 1)
    assert space(replace(BASE, iterations=7)).limits["temporal"] == (1, 3)


@pytest.mark.parametrize(("entries", "least"), [(1, 0.5), (4, 0.25), (10**6, 1e-4)])
def test_the_least_fraction_is_one_entry_but_neither_below_1e4_nor_above_a_half(
    entries: int, least: float
) -> None:
    assert space(entries=entries).limits["gradient"] == (least, 1.0)


@pytest.mark.parametrize(
    ("strategy", "given", "middle"), [("nesterov", None, 0.7), ("nesterov", 0.3, 0.3)]
)
def test_a_server_rate_is_searched_around_the_strategy_s_or_the_one_given(
    strategy: str, given: float | None, middle: float
) -> None:
    """Within thirty times, on either side; other strategies have none."""
    low, high = space(BASE.but(strategy=strategy, server_lr=given)).limits["server_lr"]
    assert (low, high) == (pytest.approx(middle / 30), pytest.approx(middle * 30))
    assert "server_lr" not in space().limits


def test_a_server_rate_that_is_a_share_is_searched_up_to_one() -> None:
    base = BASE.but(strategy="fedasync", network="up=1Mbit, compute=1ms")
    assert space(base).limits["server_lr"] == (pytest.approx(0.02), 1.0)


# --- a point as it is run -----------------------------------------------------------------------


def test_a_point_has_two_digits() -> None:
    used = space().used(POINT | {"temporal": 47, "gradient": 0.01234, "lr": 0.0199})
    assert used == POINT | {"temporal": 47, "gradient": 0.012, "lr": 0.02}
    big = space(replace(BASE, iterations=1000)).used(POINT | {"temporal": 347})
    assert big["temporal"] == 350


def test_a_point_has_no_more_than_its_method_takes() -> None:
    """raw takes neither fraction nor coders; cocktailsgd at most a tenth; dgc works at n = 1."""
    no_momentum = BASE.but(momentum=0.0)
    asked = POINT | {"gradient": 0.5, "coder": "ans | ans"}
    raw = space().used(asked | {"method": "raw"})
    assert (raw["gradient"], raw["coder"], raw["temporal"]) == (None, OWN_CODER, 10)
    assert space().used(asked | {"method": "cocktailsgd"})["gradient"] == 0.1
    assert space().used(asked)["coder"] == "ans | ans"
    assert space(no_momentum).used(asked | {"method": "dgc({p})"})["temporal"] == 1
    assert "server_lr" not in space().used(asked | {"server_lr": 3.0})
    served = space(replace(BASE, strategy="nesterov"))
    assert served.used(asked | {"server_lr": 0.6789})["server_lr"] == 0.68


def test_the_greatest_fraction_of_a_method() -> None:
    methods = "sbc", "cocktailsgd", "rtopk({p}, 0.5) | float32 | golomb"
    assert [*map(max_fraction, methods)] == [1.0, 0.1, 0.5]


def test_the_coders_that_can_be_drawn() -> None:
    """Eight, the method's own first."""
    assert CODERS[0] == OWN_CODER and len(CODERS) == 8 == len({*CODERS})


@pytest.mark.parametrize(
    ("temporal", "p", "every"),
    [
        (1, 0.1, 1),  # within 2000 bits 20 messages of 100 bits: every one
        (1, 0.02, 5),  # 100 messages of 20 bits, of 100 rounds: every fifth
        (10, 0.02, 1),  # 10 rounds
        (1, 0.05, 2),  # 40 messages of 50 bits: every second
        (1, 1.0, 1),  # two messages
    ],
)
def test_within_a_budget_a_run_is_evaluated_twenty_times(
    temporal: int, p: float, every: int
) -> None:
    config = space().config(POINT | {"temporal": temporal, "gradient": p})
    assert config.evaluation.every == every and config.stop_at_bits == 2000
    assert (config.method, config.gradient, config.temporal) == ("sbc", p, temporal)
    assert (config.training.lr, config.label, config.seed) == (0.02, "sbc", 7)
    assert config.evaluation.validation == 0.2


@pytest.mark.parametrize(("temporal", "every"), [(1, 2), (2, 1), (3, 1)])
def test_without_a_budget_a_run_is_evaluated_forty_times(temporal: int, every: int) -> None:
    """Of 100, 50 and 34 rounds every second, every and every one."""
    config = space(goal=FRONT).config(POINT | {"temporal": temporal})
    assert config.evaluation.every == every and config.stop_at_bits is None


def test_other_coders_and_a_method_that_steps_by_its_rate_are_written_out() -> None:
    config = space().config(POINT | {"coder": "ans | ans"})
    assert config.method == "ef(per_tensor(one_sided(0.1) | mean | ans | ans), mask=true)"
    assert config.gradient is None and config.label == "sbc, ans | ans"
    own = Space(BASE, BUDGET, ("signsgd({lr})",), sizes())
    assert own.config(POINT | {"method": "signsgd({lr})"}).method == "signsgd(0.02)"


def test_a_cell_is_named_by_method_n_p_and_seed() -> None:
    """The finals' runs differ from the trials' in seed and in the part that scores them."""
    tried, fresh = space().cell(POINT), space().cell(POINT, 8, validation=False)
    assert tried.name.startswith("sbc-n10-p0.1-s7-") and fresh.name.startswith("sbc-n10-p0.1-s8-")
    assert (tried.config.seed, tried.config.evaluation.validation) == (7, 0.2)
    assert (fresh.config.seed, fresh.config.evaluation.validation) == (8, None)
    assert space().cell(POINT, 8).config.evaluation.validation == 0.2
    dense = space().cell(POINT | {"method": "raw"})
    assert dense.name.startswith("raw-n10-s7-") and dense.name.endswith(dense.config.digest)


# --- first points -------------------------------------------------------------------------------


def test_a_first_point_is_at_the_task_s_rate_and_within_the_limits() -> None:
    """The middle of the rates' logarithms is the task's rate; and every draw lies inside."""
    tried = space(replace(BASE, strategy="nesterov"), FRONT)
    points = [tried.draw(k, "sbc", 7) for k in range(40)]
    for point in points:
        assert point["lr"] == pytest.approx(0.02) and point["server_lr"] == pytest.approx(0.7)
        assert 1 <= point["temporal"] <= 50 and 0.001 <= point["gradient"] <= 1
        assert isinstance(point["temporal"], int) and point["coder"] == OWN_CODER
    assert len({point["gradient"] for point in points}) == 40
    assert tried.draw(3, "sbc", 7) == points[3] != tried.draw(3, "sbc", 8)


@pytest.mark.parametrize(
    ("temporal", "p", "wasted"),
    [
        (10, 0.2, 0.0),  # 10 messages of 200 bits are the budget
        (10, 0.02, 1.0),  # a tenth of it
        (5, 0.4, log10(4)),  # 20 of 400 bits are four times as many; five of them fit
        (50, 1.0, 10 * log10(2)),  # two of 1000 bits are the budget, and two are half of four
        (100, 0.5, log10(4)),  # one of 500 bits; four of them would fit
    ],
)
def test_what_a_first_point_wastes(temporal: int, p: float, wasted: float) -> None:
    found = space()._wasted(POINT | {"temporal": temporal, "gradient": p})
    assert found == pytest.approx(wasted, abs=1e-9)


def test_the_first_point_of_a_budget_wastes_least_of_24() -> None:
    import numpy as np

    tried, draws = space(), np.random.default_rng([7, 3])
    drawn = [tried._wasted(tried._drawn("sbc", draws)) for _ in range(24)]
    assert tried._wasted(tried.draw(3, "sbc", 7)) == min(drawn) < drawn[0]


# --- what is left out ---------------------------------------------------------------------------


def test_a_method_stays_whose_least_message_is_the_budget() -> None:
    """At the least fraction, 0.001, sbc has 1 bit; raw has 1000."""
    assert fitting(BASE, replace(BUDGET, budget=1000.0), ["raw"], sizes()) == (("raw",), {})
    fit, left = fitting(BASE, replace(BUDGET, budget=1000.0), ["sbc", "raw"], sizes())
    assert fit == ("sbc", "raw") and not left
    fit, left = fitting(BASE, replace(BUDGET, budget=999.0), ["raw", "sbc"], sizes())
    assert fit == ("sbc",) and left == {"raw": "its smallest message has 1000 bit"}
    with pytest.raises(UsageError, match="one message of sbc has 1 bit for this model"):
        fitting(BASE, replace(BUDGET, budget=0.5), ["raw", "sbc"], sizes())
    assert fitting(BASE, FRONT, ["raw"], sizes())[0] == ("raw",)


def test_why_a_method_cannot_be_run() -> None:
    assert why_not(BASE, "sbc", 2) == "" and "--momentum 0" in why_not(BASE, "dgc({p})")
    with pytest.raises(UsageError, match="--methods: none can be run"):
        fitting(BASE, FRONT, ["dgc({p})"], sizes())


def test_methods_are_taken_once_and_between_commas_outside_of_brackets() -> None:
    assert select_methods("sbc, raw; sbc") == ["sbc", "raw"]
    assert select_methods("rtopk(0.1, 0.5) | float32, stc") == ["rtopk(0.1, 0.5) | float32", "stc"]
    assert select_methods("published") == select_methods("all")[:-8]


# --- both ways ----------------------------------------------------------------------------------


def both_ways(**given: Any) -> Space:
    return space(BASE.but(budget_of="total", **given), replace(BUDGET, budget_of="total"))


BOTH = POINT | {"downlink": "sbc", "down_gradient": 0.2}


def test_upstream_nothing_of_the_downlink_is_searched() -> None:
    """What a study of upstream bits is named by, and its first point, are those of old folders."""
    assert space().downlinks == () and space().down(POINT) == 0
    assert _name(space()) == "bb9f21abd8fea139"
    assert space().draw(3, "sbc", 7) == POINT | {
        "temporal": 11,
        "gradient": 0.16870409028607633,
        "lr": 0.02,
    }


def test_both_ways_the_downlink_is_one_of_the_methods_raw_or_relayed() -> None:
    """dgc keeps a client's momentum, and goes up alone; one that is given is not searched."""
    tried = both_ways()
    assert tried.downlinks == ("raw", "relay", "sbc", "cocktailsgd")
    assert tried.limits["down_gradient"] == tried.limits["gradient"]
    assert tried.draw(3, "sbc", 7)["downlink"] == "sbc"
    assert tried.draw(3, "dgc({p})", 7)["downlink"] == "raw"
    assert both_ways(downlink="cnat").downlinks == ()
    assert "relay" not in both_ways(strategy="fedadam").downlinks


def test_a_downlink_has_two_digits_and_no_more_than_it_takes() -> None:
    tried = both_ways()
    assert tried.used(BOTH | {"down_gradient": 0.2345}) == BOTH | {"down_gradient": 0.23}
    assert tried.used(BOTH | {"downlink": "raw"})["down_gradient"] is None
    assert tried.config(BOTH).downlink == "sbc(0.2)"
    assert tried.config(BOTH | {"downlink": "relay"}).downlink == "relay"


@pytest.mark.parametrize(
    ("downlink", "down"),
    [("sbc", 200), ("raw", 1000), ("relay", 300)],  # 100 bits of each of three others
)
def test_what_a_client_receives_in_a_round(downlink: str, down: int) -> None:
    assert both_ways().down(BOTH | {"downlink": downlink}) == down
    assert both_ways().bits(BOTH) == 100


@pytest.mark.parametrize(
    ("p", "below", "every"),
    [
        (0.1, 0.2, 1),  # a message up, and six of 300 bits for both ways, are within 2000 bits
        (0.01, 0.01, 5),  # 100 rounds
        (0.02, 0.02, 2),  # 2000 + 20 bits are 50 of 40
    ],
)
def test_both_ways_a_run_is_evaluated_twenty_times(p: float, below: float, every: int) -> None:
    """The first round's model is known to all, and sent to nobody."""
    config = both_ways().config(BOTH | {"temporal": 1, "gradient": p, "down_gradient": below})
    assert config.evaluation.every == every
    assert (config.stop_at_bits, config.budget_of) == (2000, "total")


def test_what_a_first_point_wastes_both_ways() -> None:
    """10 messages up and 9 down of 100 bits; and two of 1000 up, one down, where 4 should fit."""
    both = BOTH | {"gradient": 0.1, "down_gradient": 0.1}
    assert both_ways()._wasted(both) == pytest.approx(log10(2000 / 1900))
    whole = BOTH | {"temporal": 50, "gradient": 1.0, "down_gradient": 1.0}
    assert both_ways()._wasted(whole) == pytest.approx(log10(1.5) + 10 * log10(3.5))


def test_a_goal_says_which_bits_it_counts() -> None:
    assert replace(BUDGET, budget_of="total").words() == (
        "best accuracy within 2 kbit per client both ways"
    )
    assert replace(FRONT, target=0.5, budget_of="total").words() == (
        "fewest bits per client both ways to accuracy 0.5"
    )
    assert (both_ways().dense, space().dense) == (2 * 32 * 1000 * 100, 32 * 1000 * 100)


# --- the search's own settings ------------------------------------------------------------------


def test_what_is_searched_is_at_its_default() -> None:
    """And a fifth of the training samples are the validation part, unless told."""
    given = RunConfig.of(
        method="sbc", gradient=0.1, temporal=9, evaluate_every=3, stop_at_bits=1e6, label="x"
    )
    base = _base(given)
    assert (base.method, base.gradient, base.temporal) == ("raw", None, 1)
    assert (base.evaluation.validation, base.label, base.stop_at_bits) == (0.2, None, None)
    assert base.evaluation.every is None and _base(BASE).evaluation.validation == 0.2
    assert _base(BASE.but(validation=0.5)).evaluation.validation == 0.5


def test_a_study_is_of_its_settings_goal_and_methods() -> None:
    """Another of any of them is another study in the same file; the seed's trials are its own."""
    names = {
        _name(space()),
        _name(space(goal=FRONT)),
        _name(space(goal=replace(BUDGET, budget=1.0))),
        _name(space(goal=Goal(True, "accuracy", target=0.5))),
        _name(space(replace(BASE, seed=8))),
        _name(Space(BASE, BUDGET, ("sbc",), sizes())),
    }
    assert len(names) == 6 and _name(space()) == _name(space())


def test_the_winner_s_file_has_what_is_not_at_its_default() -> None:
    """The score and the bits are those of its first fresh seed on held-out samples."""
    config = BASE.but(
        method="sbc", gradient=0.1, temporal=10, seed=8, validation=None, lr=0.05, device="cpu"
    )
    own = finalist(0, [-0.9])
    held = SeedScores(((1500.0, 0.875), (1200.0, 0.5)), (-0.875, -0.5))
    own = replace(own, config=config, held=held)
    assert to_toml(own, BUDGET).splitlines() == [
        "# Best accuracy within 2 kbit per client upstream, as a search found it.",
        "# This run: accuracy 0.8750 on held-out samples with 1.50 kbit per client upstream.",
        "",
        f'version = "{VERSION}"',
        'task = "digits"',
        'method = "sbc"',
        "temporal = 10",
        "gradient = 0.1",
        "iterations = 100",
        "seed = 8",
        "",
        "[training]",
        "lr = 0.05",
    ]
    never = replace(own, held=SeedScores((None,), (1.0,)))
    assert "This run" not in to_toml(never, BUDGET)
