"""Clipping, noise and accountant of `dp`, by numbers from paper or from dp-accounting."""

import math
from typing import Any

import pytest
import torch

from compressors import Raw, State
from fedsim import RunConfig, UsageError
from strategies import DP, Buffers, RoundInfo, Uplink, build
from strategies.algorithms.dp import delta_of, epsilon_of

QUIET = 1e-9


def info(number: int = 1, cohort: int = 2) -> RoundInfo:
    return RoundInfo(number, 7, cohort, Raw(), cohort)


def stepped(
    rule: DP, updates: list[list[float]], state: State | None = None, **about: Any
) -> tuple[list[float], State]:
    ups = {c: Uplink(b"", {}, {"w": torch.tensor(x)}, {}) for c, x in enumerate(updates)}
    model = {"w": torch.zeros(len(updates[0]))}
    moved, after = rule.step(ups, state or {}, model, info(**about))
    assert moved is not None
    return moved["w"].tolist(), after


def test_updates_are_cut_to_the_bound_and_divided_by_the_whole_cohort() -> None:
    """(3, 4) has norm 5 and becomes (0.6, 0.8); (0.3, 0.4) stays; of a cohort of 4 two replied."""
    moved, after = stepped(DP(noise=QUIET, clip=1.0), [[3.0, 4.0], [0.3, 0.4]], cohort=4)
    assert moved == pytest.approx([0.225, 0.3]) and after == {}
    assert stepped(DP(noise=QUIET), [[0.0], [0.0]])[0] == pytest.approx([0.0], abs=1e-9)


def test_the_bound_is_on_all_tensors_together() -> None:
    ups = {0: Uplink(b"", {}, {"a": torch.tensor([3.0]), "b": torch.tensor([[4.0]])}, {})}
    model = {"a": torch.zeros(1), "b": torch.zeros(1, 1)}
    moved, _ = DP(noise=QUIET, clip=1.0).step(ups, {}, model, info(cohort=1))
    assert moved is not None
    assert moved["a"].tolist() == pytest.approx([0.6])
    assert moved["b"].flatten().tolist() == pytest.approx([0.8])


def test_the_noise_has_deviation_z_c_over_m_and_is_of_the_seed_and_the_round() -> None:
    """z = 3, C = 0.5, m = 4: 0.375, to 1 % of 100,000 draws; two tensors draw others."""
    model = {name: torch.zeros(100_000) for name in "ab"}
    ups = {0: Uplink(b"", {}, dict(model), {})}
    rule = DP(noise=3.0, clip=0.5)
    first, again, next_ = (rule.step(ups, {}, model, info(n, 4))[0] for n in (1, 1, 2))
    assert first is not None and again is not None and next_ is not None
    assert float(first["a"].std()) == pytest.approx(0.375, rel=0.01)
    assert abs(float(first["a"].mean())) < 0.375 * 4 / math.sqrt(100_000)
    assert torch.equal(first["a"], again["a"]) and torch.equal(first["b"], again["b"])
    follows = DP(noise=3.0, clip=0.5, quantile=0.5, count_noise=5.0)
    half, _ = follows.step(ups, {}, model, info(1, 4))
    assert half is not None  # (1 / 9 - 1 / 100)^(-1/2) = 3.144855 times C / m
    assert float(half["a"].std()) == pytest.approx(0.393107, rel=0.01)
    for other in (first["b"], next_["a"]):
        both = torch.stack([first["a"], other])
        assert abs(float(torch.corrcoef(both)[0, 1])) < 0.02


def test_the_bound_follows_the_quantile() -> None:
    """Norms 0.5 and 2 with C = 1: b = 1 / 2. For gamma = 0: C exp(-0.2 / 2) = 0.904837. Of a cohort
    of four, two of whom replied, both short: b = (2 - 1) / 4 + 1 / 2 = 3 / 4."""
    rule = DP(noise=QUIET, clip=1.0, quantile=0.0, count_noise=10 * QUIET)
    sent = [[0.5], [2.0]]
    after = stepped(rule, sent)[1]
    assert float(after["clip"]) == pytest.approx(0.904837, abs=1e-6)
    again = stepped(rule, sent, after)  # cut to 0.904837 now: (0.5 + 0.904837) / 2
    assert again[0] == pytest.approx([0.702419], abs=1e-6)
    assert float(again[1]["clip"]) == pytest.approx(math.exp(-0.2), abs=1e-6)
    half = DP(noise=QUIET, clip=1.0, quantile=0.5, count_noise=10 * QUIET)
    assert float(stepped(half, sent)[1]["clip"]) == pytest.approx(1.0, abs=1e-6)
    few = stepped(half, [[0.5], [0.5]], cohort=4)[1]
    assert float(few["clip"]) == pytest.approx(math.exp(-0.2 / 4), abs=1e-6)


def test_the_count_takes_its_part_of_the_noise() -> None:
    """z = 1 and sigma_b = 1: (1 - 1 / 4)^(-1/2). Both are as private as z: 1 / z^2 is the sum."""
    rule = DP(noise=1.0, quantile=0.5, count_noise=1.0)
    assert rule.update_noise(30) == pytest.approx(1.1547005)
    assert rule.update_noise(30) ** -2 + (2 * 1.0) ** -2 == pytest.approx(1.0)
    assert DP(noise=1.0, quantile=0.5).count_noise_of(100) == 5
    assert rule.epsilon(3) == DP(noise=1.0).epsilon(3)


@pytest.mark.parametrize(
    ("noise", "rounds", "epsilon"),
    [
        (1.0, 1, 4.377178),
        (1.0, 100, 91.817290),
        (10.0, 100, 4.377178),
        (2.0, 50, 20.675508),
        (0.5, 10, 46.211210),
    ],
)
def test_epsilon_is_that_of_dp_accounting(noise: float, rounds: int, epsilon: float) -> None:
    """PLDAccountant of dp-accounting 0.6.0, intervals of 1e-4, which is at most 2e-6 above."""
    assert DP(noise=noise).epsilon(rounds) == pytest.approx(epsilon, abs=2e-6)


def test_delta_and_epsilon_are_inverse_and_epsilon_is_not_below() -> None:
    """Phi(-1/2) - e Phi(-3/2) = 0.308538 - 2.718282 * 0.066807 = 0.126937."""
    assert delta_of(1.0, 1.0) == pytest.approx(0.126937, abs=1e-6)
    for mu in (1e-3, 0.1, 1.0, 30.0, 1000.0):
        for delta in (1e-9, 1e-5, 0.1):
            found = epsilon_of(mu, delta)
            assert delta_of(mu, found) <= delta
            if found:
                assert delta_of(mu, found * (1 - 1e-6)) > delta
    assert epsilon_of(0.0, 1e-5) == 0 and epsilon_of(1e-6, 0.1) == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"strategy": "dp(noise=0)"}, ["noise is 0", "above 0"]),
        ({"strategy": "dp(clip=-1)"}, ["clip is -1", "above 0"]),
        ({"strategy": "dp(delta=1)"}, ["delta is 1", "delta < 1"]),
        ({"strategy": "dp(quantile=2)"}, ["quantile is 2", "quantile <= 1"]),
        ({"strategy": "dp(clip_lr=0.1)"}, ["clip_lr", "quantile"]),
        ({"strategy": "dp(quantile=0.5)", "clients": 10}, ["--cohort is 10", "0.5 takes", "11"]),
        ({"strategy": "dp(1, 1, quantile=0.5, count_noise=0.5)"}, ["count_noise 0.5", "larger"]),
        ({"strategy": "dp", "controller": "adacomm(2)"}, ["--controller is 'adacomm(2)'", "noise"]),
        ({"strategy": "dp", "weighting": "samples"}, ["--weighting is 'samples'"]),
        ({"strategy": "dp", "downlink": "relay"}, ["--downlink is 'relay'"]),
    ],
)
def test_what_would_promise_nothing_is_refused(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        RunConfig.of(**settings)
    assert all(word in str(error.value) for word in words), error.value


def test_in_flower_s_loop_buffers_are_refused_too() -> None:
    with pytest.raises(ValueError, match=r"buffers is .* without noise"):
        build(DP(), Raw(), clients=2, buffers=Buffers({"mean": torch.zeros(1)}))
