"""Mixed models are at the optimum of their likelihood, which is that of the definition."""

import re

import numpy as np
import pandas as pd
import pytest

from experiments.common import inference
from experiments.common.inference import NotConverged, fit, holm
from tests.support.likelihood import deviance, optimal
from tests.support.markdown import ROOT


def nested(places: int, seeds: int, methods: int, seed: int = 0) -> pd.DataFrame:
    """A line per place, seed and method, with effects of all three and of methods at places."""
    numbers = np.random.default_rng(seed)
    lines = []
    for place in range(places):
        at, own = numbers.normal(0, 2), numbers.normal(0, 0.5, methods)
        for run in range(seeds):
            lines += [
                {
                    "y": at + shift + own[m] + 0.2 * m + numbers.normal(0, 0.3),
                    "place": place,
                    "seed": f"{place} {run}",
                    "own": f"{place} {m}",
                    "method": m,
                }
                for shift in [numbers.normal(0, 0.7)]
                for m in range(methods)
            ]
    return pd.DataFrame(lines)


def design(lines: pd.DataFrame) -> pd.DataFrame:
    return pd.get_dummies(lines["method"], dtype=float)


def groups(lines: pd.DataFrame, *names: str) -> dict[str, pd.Series]:
    return {name: lines[name] for name in names}


def test_a_balanced_design_has_the_estimates_of_the_analysis_of_variance() -> None:
    """Places, seeds within them and methods: variances from mean squares (Searle et al. 1992)."""
    lines = nested(6, 4, 3)
    found = fit(lines["y"], design(lines), groups(lines, "place", "seed"))
    y = lines["y"].to_numpy().reshape(6, 4, 3)
    by_place, by_seed, by_method = y.mean((1, 2)), y.mean(2), y.mean((0, 1))
    place = 12 * by_place.var(ddof=1)
    seed = 3 * ((by_seed - by_place[:, None]) ** 2).sum() / (6 * 3)
    rest = y - by_seed[..., None] - by_method + y.mean()
    residual = (rest**2).sum() / (72 - 24 - 2)
    assert found.variance == pytest.approx(residual)
    ratios = [(place - seed) / 12 / residual, (seed - residual) / 3 / residual]
    assert found.ratios.tolist() == pytest.approx(ratios)
    assert found.effects.tolist() == pytest.approx(by_method.tolist())
    spread = found.covariance
    of_two = spread.loc[0, 0] + spread.loc[1, 1] - 2 * spread.loc[0, 1]
    assert of_two == pytest.approx(2 * residual / 24)


@pytest.mark.parametrize("restricted", [True, False])
def test_a_variance_that_is_not_there_is_zero(restricted: bool) -> None:
    """Groups differ less than lines within them do: what is left is least squares."""
    lines = nested(4, 5, 2).assign(y=np.tile([1.0, -1.0, 2.0, 0.0, 0.5], 8))
    found = fit(lines["y"], design(lines), groups(lines, "place"), restricted)
    assert found.ratios.tolist() == [0.0] and found.slope == 0
    assert found.effects.tolist() == pytest.approx(lines.groupby("method")["y"].mean().tolist())


CASES = [
    pytest.param(names, restricted, id=f"{'-'.join(names)} {restricted}")
    for names in (["place"], ["place", "seed"], ["place", "seed", "own"])
    for restricted in (True, False)
]


@pytest.mark.parametrize(("names", "restricted"), CASES)
def test_derivatives_are_those_of_the_definition(names: list[str], restricted: bool) -> None:
    lines = nested(5, 3, 4).drop([0, 7, 8, 30])
    asked = lines["y"], design(lines), groups(lines, *names)
    model, ratios = inference._Model(*asked, restricted), np.array([0.5, 2.0, 0.1][: len(names)])
    point, h = model.at(ratios), 1e-4
    for k in range(len(ratios)):
        low, high = (model.at(ratios + sign * h * np.eye(len(ratios))[k]) for sign in (-1, 1))
        ends = (deviance(*asked, p.ratios, restricted) for p in (low, high))
        slope = -np.subtract(*ends) / (2 * h)
        assert point.gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-6)
        curve = (high.gradient - low.gradient) / (2 * h)
        assert point.hessian[k] == pytest.approx(curve, rel=1e-5, abs=1e-5)
    assert point.deviance == pytest.approx(deviance(*asked, ratios, restricted))


@pytest.mark.parametrize(("names", "restricted"), CASES)
@pytest.mark.parametrize("start", [1e-4, 1e4])
def test_the_optimum_does_not_depend_on_the_start(
    names: list[str], restricted: bool, start: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = nested(5, 3, 4).drop([0, 7, 8, 30])
    asked = lines["y"], design(lines), groups(lines, *names), restricted
    found = fit(*asked)
    assert optimal(*asked[:3], found.ratios.to_numpy(), restricted)
    monkeypatch.setattr(inference, "STARTS", (start,))
    again = fit(*asked)
    assert again.ratios.tolist() == pytest.approx(found.ratios.tolist(), abs=1e-6)
    assert again.effects.tolist() == pytest.approx(found.effects.tolist())


def test_a_fit_that_is_stopped_early_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = nested(5, 3, 4)
    asked = lines["y"], design(lines), groups(lines, "place", "seed", "own")
    monkeypatch.setattr(inference, "STEPS", 2)
    with pytest.raises(NotConverged, match="gradient of .* allowed is 1e-06"):
        fit(*asked)


def test_a_likelihood_without_an_optimum_is_refused() -> None:
    """A seed per place: both variances are one, and any share of it is as good."""
    lines = nested(5, 1, 3)
    with pytest.raises(NotConverged):
        fit(lines["y"], design(lines), groups(lines, "place", "seed"))


def test_holm_by_hand() -> None:
    """Thrice the least, twice the next and no less than the first's, at most 1."""
    assert holm(np.array([0.04, 0.01, 0.03])).tolist() == pytest.approx([0.06, 0.03, 0.06])
    assert holm(np.array([0.5, 0.9, 0.001])).tolist() == pytest.approx([1.0, 1.0, 0.003])
    assert holm(np.array([])).tolist() == []


def test_no_experiment_silences_a_warning() -> None:
    silent = re.compile(r"catch_warnings|simplefilter|filterwarnings")
    paths = [*(ROOT / "experiments").rglob("*.py")]
    assert len(paths) > 50
    assert not [path for path in paths if silent.search(path.read_text(encoding="utf-8"))]
