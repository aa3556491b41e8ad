"""Every controller over a history by hand, its memory handed on as a checkpoint keeps it.

A row is what the controller is told before a round, and the n and p that it then chooses. Unless a
test says otherwise n = 8, p = 0.01, and a run has 100 iterations.
"""

import json
from typing import Any

import pytest

from fedsim.settings.controllers import (
    Action,
    ClientObservation,
    Memory,
    Observation,
    parse_controller,
)
from fedsim.settings.controllers.links import Pace

_NOT_YET = ("seconds", "train_loss", "loss", "metric", "update_norm", "agreement")


def told(**facts: Any) -> Observation:
    known: dict[str, Any] = dict.fromkeys(_NOT_YET)
    known |= {"round": 1, "iteration": 0, "iterations": 100, "n": 8, "p": 0.01, "rate": 1.0}
    known |= {"rate_drops": (), "up_bits": 0.0, "down_bits": 0.0, "entries": 1000, "clients": {}}
    return Observation(**known | facts)


def walk(name: str, history: list[tuple[dict[str, Any], int, float]]) -> Memory:
    """Looks at every choice; returns what is remembered at the end."""
    controller, memory = parse_controller(name), Memory()
    for step, (facts, n, p) in enumerate(history):
        before = json.dumps(memory)
        choice, after = controller.choose(told(**facts), memory)
        assert isinstance(choice, Action)
        assert (choice.n, choice.p) == (n, pytest.approx(p, rel=1e-9)), (step, facts)
        assert json.dumps(memory) == before  # it is not changed in place
        memory = json.loads(json.dumps(after))
    return memory


def losses(*rows: tuple[float | None, int, float]) -> list[tuple[dict[str, Any], int, float]]:
    return [({"train_loss": loss}, n, p) for loss, n, p in rows]


def test_plateau_waits_for_its_patience() -> None:
    """A loss is better by more than a quarter of the best: 3 is not, and 2.5 is.

    After two that are not better the best is forgotten: 9 is the first of the next phase. A round
    of which nothing is known counts neither way.
    """
    rows = [
        (None, 8, 0.01),
        (4.0, 8, 0.01),
        (3.0, 8, 0.01),
        (2.5, 8, 0.01),
        (2.0, 8, 0.01),
        (None, 8, 0.01),
        (1.9, 4, 0.02),
        (9.0, 4, 0.02),
        (9.0, 4, 0.02),
        (6.0, 4, 0.02),
        (5.0, 4, 0.02),
        (4.5, 2, 0.04),
    ]
    assert walk("plateau(2, better=0.25)", losses(*rows)) == {"steps": 2, "bad": 0, "best": None}


def test_plateau_looks_for_a_hundredth_unless_told_otherwise() -> None:
    rows = [(100.0, 8, 0.01), (99.5, 4, 0.02), (98.0, 4, 0.02), (97.0, 4, 0.02), (96.5, 2, 0.04)]
    assert walk("plateau(1)", losses(*rows))["steps"] == 2


def test_plateau_s_factor_is_taken_to_powers_of_what_the_run_began_with() -> None:
    """8 / 3, 8 / 9 and 8 / 27 are 3, 1 and 1; p is at most 0.2."""
    rows = [
        (1.0, 8, 0.01),
        (1.0, 3, 0.03),
        (1.0, 3, 0.03),
        (1.0, 1, 0.09),
        (1.0, 1, 0.09),
        (1.0, 1, 0.2),
        (1.0, 1, 0.2),
        (1.0, 1, 0.2),
    ]
    walk("plateau(1, 3, most=0.2)", losses(*rows))


def test_plateau_takes_a_negative_loss_as_better_the_lower_it_is() -> None:
    """A quarter better than -4 is below -5; than 0 is below 0."""
    rows = [(-4.0, 8, 0.01), (-5.0, 8, 0.01), (-5.5, 8, 0.01), (-5.5, 8, 0.01), (-3.0, 4, 0.02)]
    walk("plateau(2, better=0.25)", losses(*rows))
    walk("plateau(1)", losses((0.0, 8, 0.01), (-0.1, 8, 0.01), (-0.1, 4, 0.02)))


def agreements(*rows: tuple[float | None, int]) -> list[tuple[dict[str, Any], int, float]]:
    return [({"agreement": cosine}, n, 0.01) for cosine, n in rows]


def test_noise_looks_at_its_sum_after_the_burn_in() -> None:
    """0.5 - 0.25 - 0.25 is 0 after three cosines, and not below; a fourth makes it -0.125.

    Then the sum begins again: two cosines of -1 are not enough, and a third is. What is not known
    yet is no cosine.
    """
    rows = [(None, 8), (0.5, 8), (None, 8), (-0.25, 8), (-0.25, 8), (-0.125, 4), (-1.0, 4),
            (-1.0, 4), (-1.0, 2), (0.25, 2), (0.25, 2), (-0.125, 2), (-0.25, 2)]  # fmt: skip
    assert walk("noise(3)", agreements(*rows)) == {"n": 2, "rounds": 4, "sum": 0.125}
    walk("noise(2)", agreements((None, 8), (-1.0, 8), (-1.0, 4), (None, 4), (-1.0, 4), (-1.0, 2)))


def test_noise_halves_down_to_its_least() -> None:
    walk("noise(1, least=3)", agreements((-1.0, 4), (-1.0, 3), (-1.0, 3)))
    walk("noise(1)", agreements((-1.0, 4), (-0.1, 2), (-0.1, 1), (-0.1, 1)))
    small = {"agreement": -1.0, "n": 2}
    walk("noise(1, least=5)", [(small, 2, 0.01), (small, 2, 0.01)])  # it does not grow
    odd = {"agreement": -1.0, "n": 7}
    walk("noise(1)", [(odd, 3, 0.01), (odd, 1, 0.01)])


def reported(
    *rows: tuple[int, float | None, int], **facts: Any
) -> list[tuple[dict[str, Any], int, float]]:
    return [({"iteration": at, "train_loss": x} | facts, n, 0.01) for at, x, n in rows]


def test_adacomm_goes_by_iterations_and_the_first_loss() -> None:
    """sqrt(1.1 / 4) 8 is 4.2, so 5; sqrt(1 / 4) 8 is 4; at 30 again 4, not below 4, so 2; at 40,
    of a loss of 36, it would be 24: 1; and 1 it stays, of a loss of 0 too.
    """
    rows = [(0, None, 8), (5, 4.0, 8), (9, 1.1, 8), (10, 1.1, 5), (19, 0.01, 5), (20, 1.0, 4),
            (29, 0.01, 4), (30, 1.0, 2), (40, 36.0, 1), (50, 0.0, 1), (65, -1.0, 1)]  # fmt: skip
    assert walk("adacomm(10)", reported(*rows)) == {"n": 1, "first": 4.0, "turn": 6}


def test_adacomm_s_turns_are_not_shifted_by_rounds_that_skip_them() -> None:
    """The first loss comes at 25, within the third turn; the next turns begin at 30 and 40."""
    rows = [
        (0, None, 8),
        (25, 4.0, 8),
        (29, 1.0, 8),
        (30, 1.0, 4),
        (38, 0.01, 4),
        (47, 0.25, 2),
        (49, 0.01, 2),
        (50, 0.01, 1),
    ]
    walk("adacomm(10)", reported(*rows))


def test_adacomm_leaves_n_where_there_is_no_loss_to_go_by() -> None:
    """At 10 nobody has reported: n is worked out at 15, and again at 20."""
    rows = [(0, 4.0, 8), (10, None, 8), (15, 1.0, 4), (19, 0.01, 4), (20, 1.0, 2)]
    walk("adacomm(10)", reported(*rows))
    walk("adacomm(10)", reported((0, 0.0, 8), (10, 0.0, 8), (20, 1.0, 8)))
    assert walk("adacomm(10)", reported((0, 4.0, 8), (10, -1.0, 1)))["n"] == 1
    assert walk("adacomm(10)", reported((0, 4.0, 20), (10, 1.0, 10), n=20))["first"] == 4.0


@pytest.mark.parametrize(
    ("name", "p", "fractions"),
    [
        ("warmup(4, first=0.16)", 0.01, [0.16, 0.08, 0.04, 0.02, 0.01, 0.01]),
        ("warmup(1, first=0.5)", 0.01, [0.5, 0.01, 0.01]),
        ("warmup(2)", 0.01, [0.25, 0.05, 0.01]),
        ("warmup(3, first=1)", 0.001, [1.0, 0.1, 0.01, 0.001, 0.001]),
        ("warmup(2, first=0.005)", 0.01, [0.01, 0.01, 0.01]),  # it never goes below p
    ],
)
def test_warmup_falls_by_one_factor_a_round(name: str, p: float, fractions: list[float]) -> None:
    walk(name, [({"round": r, "p": p}, 8, x) for r, x in enumerate(fractions, 1)])


HALF = {"n": 2, "p": 0.5}
"""Total sparsity 1/4: four iterations per dense message, or one per message with a quarter."""


@pytest.mark.parametrize(
    ("name", "facts", "every"),
    [
        # The rate drops at 10 for the first time; what is left of the first phase is done in it,
        # with as many entries as go with so many iterations.
        (
            "delay_first",
            HALF | {"rate_drops": (10, 20)},
            [
                (0, 4, 1.0),
                (4, 4, 1.0),
                (6, 4, 1.0),
                (7, 3, 0.75),
                (8, 2, 0.5),
                (9, 1, 0.25),
                (10, 1, 0.25),
                (11, 1, 0.25),
                (20, 1, 0.25),
            ],
        ),
        # A drop at the end of the run, or after it, is none: half-way.
        ("delay_first", HALF | {"rate_drops": (100, 200)}, [(47, 3, 0.75), (50, 1, 0.25)]),
        ("delay_first", HALF | {"rate_drops": (99,)}, [(94, 4, 1.0), (98, 1, 0.25), (99, 1, 0.25)]),
        ("delay_first", HALF, [(46, 4, 1.0), (49, 1, 0.25), (50, 1, 0.25)]),
        ("delay_first", HALF | {"iterations": 101}, [(49, 2, 0.5), (50, 1, 0.25)]),
        # A share of the run goes before the drops.
        ("delay_first(0.2)", HALF | {"rate_drops": (10,)}, [(10, 4, 1.0), (20, 1, 0.25)]),
        # At most so many: three of four iterations, and three quarters of a message.
        ("delay_first(longest=3)", HALF, [(0, 3, 0.75), (48, 2, 0.5), (50, 1, 0.25)]),
        ("delay_first(longest=1)", HALF, [(0, 1, 0.25), (50, 1, 0.25)]),
        # 8 / 0.01 iterations would be dense, and a hundred are an eighth of that.
        (
            "delay_first",
            {"iterations": 2000},
            [(0, 100, 0.125), (980, 20, 0.025), (1000, 1, 0.00125)],
        ),
        ("delay_first", {"n": 1, "p": 1.0}, [(0, 1, 1.0), (50, 1, 1.0)]),
        # 8 / 3 iterations are 3, of which the messages would be more than dense.
        ("delay_first", {"n": 2, "p": 0.75}, [(0, 3, 1.0), (50, 1, 0.375)]),
    ],
)
def test_delay_first_in_two_phases(
    name: str, facts: dict[str, Any], every: list[tuple[int, int, float]]
) -> None:
    walk(name, [(facts | {"iteration": at}, n, p) for at, n, p in every])


def test_fixed_is_what_was_typed() -> None:
    walk("fixed", [({"n": 3, "p": 0.2, "round": 5, "iteration": 12}, 3, 0.2)])


@pytest.mark.parametrize(
    ("name", "seen", "p"),
    [
        ("link(2)", {"up": 100.0}, 0.0125),  # 200 bits, 16 per entry: 12.5 of 1000 entries
        ("link(2)", {"up": 100.0, "up_bits": 500, "sent": 50}, 0.02),  # 10 bits per entry
        ("link(2)", {"up": 100.0, "up_bits": 24, "sent": 0}, 0.0125),  # nothing travelled: 16 again
        ("link(0.5)", {"up": 3200.0}, 0.1),
        ("link(2)", {"up": 1.0}, 0.001),
        ("link(2, least=0.01)", {"up": 1.0}, 0.01),
        ("link(2)", {"up": 1e6}, 1.0),
        ("link(2, most=0.3)", {"up": 1e6}, 0.3),
        ("link(2)", {"up": float("inf")}, 1.0),
        ("link(2, least=0.3, most=0.3)", {"up": 100.0}, 0.3),
    ],
)
def test_link_fills_its_time(name: str, seen: dict[str, Any], p: float) -> None:
    chosen, memory = parse_controller(name).choose(told(clients={3: ClientObservation(**seen)}), {})
    assert memory == {} and isinstance(chosen, dict) and list(chosen) == [3]
    assert (chosen[3].n, chosen[3].p) == (8, pytest.approx(p, rel=1e-9))


@pytest.mark.parametrize(
    ("text", "compute", "n"),
    [
        ("pace(2)", 0.5, 4),
        ("pace(2)", 0.51, 3),
        ("pace(2)", 2.0, 1),
        ("pace(2)", 2.5, 1),
        ("pace(2)", 1.01, 1),
        ("pace(2, most=4)", 0.5, 4),
        ("pace(2, most=3)", 0.5, 3),
        ("pace(2)", 0.0, 100),
        ("pace(2)", 0.02, 100),
        ("pace(2)", 0.0201, 99),
        ("pace(2, most=1)", 0.5, 1),
        ("pace(2, most=1)", 5.0, 1),
    ],
)
def test_as_many_as_there_is_time_for(text: str, compute: float, n: int) -> None:
    """The whole part of seconds / compute, from 1 to ``most``, which is 100 unless given."""
    controller = parse_controller(text)
    assert isinstance(controller, Pace)
    assert controller.iterations(ClientObservation(compute=compute)) == n


@pytest.mark.parametrize(("seconds", "compute", "n"), [(0.3, 0.1, 3), (0.6, 0.2, 3), (0.7, 0.1, 7)])
def test_what_fits_exactly_is_done(seconds: float, compute: float, n: int) -> None:
    """`pace(0.3)` and `compute=100ms`: three iterations take so many seconds."""
    assert Pace(seconds).iterations(ClientObservation(compute=compute)) == n
