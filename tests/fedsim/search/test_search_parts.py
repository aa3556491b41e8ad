"""Methods and their coders, which runs are ended early, and which finalists are ties."""

import math
import re

import pytest

from compressors import CATALOGUE, text
from fedsim import Evaluation, RunConfig, UsageError
from fedsim.results.intervals import mean, tied
from fedsim.search.goal import Goal
from fedsim.search.methods import CODERS, OWN_CODER, compressor, select_methods
from fedsim.search.sizes import Sizes
from fedsim.search.space import Space, fitting
from fedsim.settings.methods import takes_fraction
from tests.support.searching import TINY


def test_published_are_all_that_run_under_any_server() -> None:
    """And DGC, which keeps a momentum. FetchSGD has a server of its own; FedScalar wants a server's
    step of its own.
    """
    published = select_methods("published")
    names = {name for method in published for name in re.findall("[a-z_]+[a-z0-9_]*", method)}
    rows = {row.name for row in CATALOGUE.values() if row.kind == "method"}
    assert rows - {"fetchsgd", "fedscalar"} <= names
    assert "raw" in published and set(published) < set(select_methods("all"))


def test_a_method_that_steps_by_a_constant_is_tuned_by_its_step() -> None:
    base = RunConfig(task=TINY, method="raw", temporal=1, evaluation=Evaluation(validation=0.2))
    goal = Goal(True, "accuracy", budget=2e4)
    (method,), left = fitting(base, goal, ["signsgd({lr})"], sizes := Sizes(base))
    space = Space(base, goal, (method,), sizes)
    point = {"method": method, "coder": "ans | ans", "temporal": 2, "gradient": 0.1, "lr": 0.12}
    assert not left and "0.12" in space.config(point).method
    assert space.config(point | {"coder": OWN_CODER}).method == "signsgd(0.12)"
    assert space.bits(point) == space.bits(point | {"lr": 0.5})


@pytest.mark.parametrize("method", select_methods("all"))
def test_every_method_has_a_compressor_with_every_coder(method: str) -> None:
    p = 0.05 if takes_fraction(method) else None
    assert all(text(compressor(method, p, coder)) for coder in CODERS)


def test_other_coders_make_no_other_method() -> None:
    assert "one_sided(0.05) | mean" in text(compressor("sbc", 0.05, "ans | ans"))
    kept = text(compressor("deepreduce({p}, 'bloom_p2')", 0.05, "ans | ans"))
    assert "bloom" in kept  # which is lossy: another code would send other entries
    assert compressor("raw", None, "ans | ans") == compressor("raw", None, OWN_CODER)


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ("sbcc", "unknown method 'sbcc' .did you mean sbc"),
        ("sbc, nothing(3)", "nothing"),
        (" ; ", "takes all, published, or methods' texts"),
    ],
)
def test_methods_that_are_none_are_refused(methods: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        select_methods(methods)


def test_ties_are_what_the_seeds_cannot_tell_apart() -> None:
    assert mean([1.0, 2.0, 3.0]).half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert tied([0.9, 0.8, 0.85], [0.89, 0.82, 0.84])
    assert not tied([0.9, 0.91, 0.9], [0.8, 0.81, 0.81])
    assert tied([0.9], [0.1]) and not tied([0.9, 0.9], [math.inf, 0.9])
