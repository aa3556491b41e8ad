"""What theory says of a method holds for what it really sends."""

import inspect
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from compressors import CATALOGUE, ROWS, Row, TopK, compress, parse
from compressors.bounds import (
    Bound,
    Sparsity,
    bound,
    compose,
    compose_omegas,
    contraction,
    neither,
    sparsity,
    unbiased,
    worst,
)
from compressors.sparsify.topk import one_sided_delta
from fedsim.measure.theory import expected_bits
from fedsim.measure.theory.bits import COSTS

Tensor = torch.Tensor
D = 96
SIGMAS = 5  # of the mean over draws: an honest method fails once in 3 million checks


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_is_known_of_a_row_is_said_in_full(row: Row) -> None:
    known = bound(parse(row.example), 1000)
    assert known.note.strip()
    assert (known.omega is not None) == (known.kind == "unbiased")
    assert (known.delta is not None) == (known.kind == "contraction")
    assert (known.kind == "unknown") == known.note.startswith("no rule known of ")
    if row.kind == "positions" and known.kind != "unknown":
        assert known.holds != hasattr(row.make, "shifts")


def test_costs_are_those_of_rows() -> None:
    """A formula under a name that no class has would never be asked for."""
    names = {name for name, row in CATALOGUE.items() if inspect.isclass(row.make)} | {"pipeline"}
    assert len(COSTS) > 10 and {*COSTS} <= names


@dataclass(frozen=True)
class Own(TopK):
    """A user's own class, of which theory knows nothing, whatever its row is called."""


def test_where_no_rule_is_known_theory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bound(3, 10) == Bound("unknown", None, None, "no rule known of 3")
    monkeypatch.setitem(CATALOGUE, "topk", Row("topk", "sparsifier", Own, "T", "here", "topk(1)"))
    method = parse("ef(topk(0.1) | cnat)")
    assert method.inner.codec.sparsify == Own(0.1)
    assert bound(method, 100).note == "no rule known of topk(0.1); of update plus memory"
    assert bound(method, 100).kind == "unknown"
    assert expected_bits(method, 100) is None
    with pytest.raises(ValueError, match="d is 0"):
        bound(parse("raw"), 0)


@dataclass(frozen=True)
class Stated(Own):
    """A user's own class that states its rule."""

    def kept_of(self, d: int) -> Sparsity:
        return Sparsity(contraction(0.25, "a quarter"), d, d)


@dataclass(frozen=True)
class Noisy(type(parse("cnat").codec.quantize)):
    """A user's own quantizer whose noise exceeds its signal."""

    def bound_on(self, k: int) -> Bound:
        return unbiased(3.0, "as it is made")


def test_a_class_from_outside_states_its_own_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Theory composes it with ours, and ``ef`` refuses what would make its memory grow."""
    for row in (
        Row("stated", "sparsifier", Stated, "T", "here", "stated(1) | float32"),
        Row("noisy", "quantizer", Noisy, "T", "here", "noisy"),
    ):
        monkeypatch.setitem(CATALOGUE, row.name, row)
    assert bound(parse("stated(0.1) | cnat"), 100).delta == 0.25 * (1 - 1 / 8)
    assert bound(parse("noisy"), 100) == Bound("unbiased", 3.0, None, "as it is made")
    with pytest.raises(ValueError, match=r"noisy is unbiased with omega >= 1.*use ef\(shrink\(noi"):
        parse("ef(noisy)")


def vectors() -> dict[str, Tensor]:
    """Vectors of D entries on which bounds are nearly reached, and ordinary ones."""
    rng = np.random.default_rng(7)
    one, stairs = np.zeros(D), np.full(D, -1e-6)
    one[3] = 2.0
    stairs[0], stairs[1] = 1.0, -9.9999  # one_sided: the chosen side has one entry of ten
    ends = np.zeros(D)  # minmax: with 2^b levels between them zero lies in the middle of two
    ends[[2, 5]] = 1.0, -1.0
    signs = rng.choice([-1.0, 1.0], D)
    found = {
        "normal": rng.normal(size=D),
        "heavy": rng.standard_t(1.5, size=D),
        "one": one,
        "equal": np.ones(D),
        "ends": ends,
        "signs": signs,
        "stairs": stairs,
        "third": signs * 4 / 3,
        "peak": np.where(np.arange(D) == 5, 1, 1 / (1 + math.sqrt(D))),  # worst for terngrad
        "far": np.exp(rng.normal(size=D) * 4) * signs,
        "positive": rng.exponential(size=D),
    }
    return {name: torch.tensor(x, dtype=torch.float32) for name, x in found.items()}


VECTORS = vectors()
BOUNDED = (
    "topk(0.1) | float32", "topk(0.05, 0.01) | float32", "one_sided(0.1) | float32",
    "one_sided(0.1) | mean", "dryden(0.1) | float32", "nonzero | float32", "blocks(8) | float32",
    "blocks(8, 0.3) | float32", "randk(0.2) | float32", "randk(0.2, false) | float32",
    "bernoulli(0.3) | float32", "bernoulli(0.3, false) | float32", "rtopk(0.1, 0.3) | float32",
    "rtopk(0.2, 0.3, true) | float32", "float32", "bfloat16",
    "cnat", "shrink(qsgd(2))", "cnat(rounding=nearest)",
    "topk(0.1) | cnat", "randk(0.2) | cnat", "dither(4)", "dither(4, 1)", "dither(4, inf)",
    "dither(4, 2, natural)", "dither(2, 1, natural)", "dither(5, inf, natural)",
    "dither(7, 2, natural, bucket=16)", "dither(4, 2, natural, norm_code='cnat')",
    "terngrad(none)", "minmax(1)", "minmax(4)", "l1_sign", "onebit", "magnitude",
    "magnitude(avg, 2)", "magnitude(column)", "sketch(4)", "topk(0.1) | magnitude",
    "topk(0.3) | magnitude",
    "topk(0.1) | l1_sign", "topk(0.1) | sketch(4)", "topk(0.1) | dither(15)",
    "topk(0.1) | minmax(8)", "then(cnat, cnat)", "then(dither(15), cnat)", "then(bfloat16, cnat)",
    "then(l1_sign, cnat)", "rotate(topk(0.2) | cnat)", "rotate(minmax(4))",
    "chunk_topk(0.1, 20) | float32", "steps(4)", "steps(3, 16)", "topk(0.2) | steps(4)",
    "subset(0.3, topk(0.2) | cnat)", "dct(8, topk(0.2) | float32)",
    "lloyd(1, least)", "topk(0.3) | lloyd(2, least)",
    "rotate(lloyd(1, least))",
    "rotate(lloyd(4, least))", "bins(1)", "bins(3)", "fp8", "fp8(e5m2)", "fp4", "fp4_e3m0",
    "mx(e3m2)", "fp8(rounding=nearest)", "fp4(nearest)", "fp4_e3m0(nearest)",
    "rotate(randk(0.25) | minmax(2))", "gspar(0.1) | float32", "uveqfed(2)", "projections(5)",
    "projections(5, false)",
)  # fmt: skip


def errors(method: str, x: Tensor, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Relative squared errors (draws,) and decoded vectors (draws, D) of one vector."""
    made = parse(method)
    decoded, whole = np.empty((draws, D)), x.double().numpy()
    for seed in range(draws):
        decoded[seed] = compress(made, {"w": x}, seed=seed)[0].sent["w"].decoded.numpy()
    return ((decoded - whole) ** 2).sum(1) / (whole**2).sum(), decoded


@pytest.mark.slow
@pytest.mark.parametrize("method", BOUNDED)
def test_the_error_stays_within_the_bound(method: str) -> None:
    known = bound(parse(method), D)
    assert known.kind != "neither"
    limit = known.omega if known.omega is not None else 1 - known.delta
    for name, x in VECTORS.items():
        found, _ = errors(method, x, 30)
        slack = SIGMAS * found.std(ddof=1) / math.sqrt(found.size) + 1e-6  # float32 rounds
        assert found.mean() <= limit + slack, name


UNBIASED = [method for method in BOUNDED if bound(parse(method), D).kind == "unbiased"]


@pytest.mark.parametrize("method", UNBIASED)
def test_what_is_called_unbiased_has_the_right_mean(method: str) -> None:
    """Of sums over all entries with random signs: single entries may have rare draws."""
    signs = np.random.default_rng(3).choice([-1.0, 1.0], (D, 12))
    for name in ("normal", "heavy"):
        sums = errors(method, VECTORS[name], 200)[1] @ signs
        error = sums.std(0, ddof=1) / math.sqrt(len(sums))
        wanted = VECTORS[name].double().numpy() @ signs
        assert (np.abs(sums.mean(0) - wanted) <= SIGMAS * error + 1e-4).all(), name


@pytest.mark.parametrize(
    ("method", "name", "share"),
    [
        ("topk(0.125) | float32", "signs", 0.999),
        ("one_sided(0.1) | mean", "stairs", 0.999),
        ("l1_sign", "one", 0.999),
        ("terngrad(none)", "peak", 0.9),
        ("cnat", "third", 0.9),
        ("randk(0.2, false) | float32", "signs", 0.999),
        ("dither(1, 2, natural)", "equal", 0.88),
        ("minmax(1)", "ends", 0.95),
        ("minmax(4)", "ends", 0.95),
    ],
)
def test_bounds_are_not_idle(method: str, name: str, share: float) -> None:
    """Some vector comes near: a bound of twice the size would fail here."""
    known = bound(parse(method), D)
    limit = known.omega if known.omega is not None else 1 - known.delta
    found, _ = errors(method, VECTORS[name], 100)
    assert found.mean() >= share * limit - 0.02 * limit
    if known.kind == "contraction":  # the distance from 1 is what delta is about
        assert 1 - found.mean() <= known.delta / share + 1e-6


@pytest.mark.parametrize(
    ("method", "least"),
    [("cint", 50), ("sign(0.5)", 1000), ("codebook(4, 1)", 50), ("threshold(0.5) | float32", 1)],
)
def test_what_has_no_bound_breaks_any(method: str, least: float) -> None:
    """Scaled down a hundred times the relative error grows as much, or nothing arrives."""
    found, _ = errors(method, VECTORS["normal"] / 100, 40)
    assert bound(parse(method), D).kind == "neither"
    assert found.mean() >= least - 1e-6


def test_one_sided_by_search() -> None:
    """No vector of few values beats the bound, and one reaches it."""
    grid = [-4.0, -2.0, -1.0, -1e-4, 1e-4, 1.0]
    low = 1.0
    for rest in np.array(np.meshgrid(*[grid] * 4)).reshape(4, -1).T:
        x = np.concatenate([[1.0], rest])
        for sign in (1, -1):
            high = np.sort(sign * x[sign * x > 0])[::-1][:2]
            lows = np.sort(-sign * x[sign * x < 0])[::-1][:2]
            chosen = high if not lows.size or (high.size and high.mean() >= lows.mean()) else lows
            low = min(low, chosen.size * chosen.mean() ** 2 / (x**2).sum())
    assert low == pytest.approx(one_sided_delta(2, 5), rel=1e-3)


def test_theorem_5() -> None:
    assert compose_omegas(1 / 8, 3.0) == pytest.approx(9 / 8 * 3 + 1 / 8)
    both = compose(unbiased(3.0, "a"), unbiased(0.125, "b"))
    assert (both.kind, both.omega) == ("unbiased", 3.5)
    assert bound(parse("randk(0.1) | cnat"), 1000).omega == pytest.approx(9 * 9 / 8 + 1 / 8)
    assert bound(parse("then(dither(4), cnat)"), 64).omega == pytest.approx(
        compose_omegas(bound(parse("dither(4)"), 64).omega, 1 / 8)
    )


def test_compositions_without_a_rule_say_so() -> None:
    biased, wide = contraction(0.5, "a"), unbiased(2.0, "b")
    assert compose(biased, wide).kind == "neither"
    assert compose(wide, biased).kind == "neither"
    assert compose(neither("c"), wide).note == "c"
    assert compose(biased, contraction(0.5, "d")).delta == 0.25
    assert compose(biased, contraction(0.5, "d"), projects=False).kind == "neither"
    assert bound(parse("topk(0.1) | qsgd(1)"), 10**6).kind == "neither"


def test_parts_of_an_update() -> None:
    assert worst([unbiased(1.0, "a"), unbiased(3.0, "b")]).omega == 3.0
    assert worst([unbiased(0.25, "a"), contraction(0.5, "b")]).delta == 0.5
    assert worst([unbiased(0.75, "a"), contraction(0.5, "b")]).delta == 0.25
    assert worst([unbiased(1.0, "a"), contraction(0.5, "b")]).kind == "neither"
    assert bound(parse("by_name('*', raw)"), 5) == Bound("unbiased", 0.0, None, "lossless")


def test_a_sampled_threshold_sends_at_least_half() -> None:
    """The rule's claim: in the mean over draws at least 0.49 k, never more than ``capacity``."""
    x = torch.from_numpy(np.random.default_rng(2).normal(size=6000).astype("float32"))
    pipe = parse("topk(0.01, 0.001) | float32")
    counts = [compress(pipe, {"w": x}, seed=s)[0].sent["w"].count for s in range(60)]
    left = sparsity(parse("topk(0.01, 0.001) | float32").codec.sparsify, 6000)
    assert np.mean(counts) >= left.bound.delta * 6000
    assert max(counts) <= left.capacity == 120


def test_projections_are_orthogonal_to_their_error() -> None:
    for text in ("l1_sign", "onebit", "magnitude", "sketch(4)"):
        x = VECTORS["heavy"].double().numpy()
        decoded = errors(text, VECTORS["heavy"], 1)[1][0]
        assert abs(decoded @ (x - decoded)) <= 1e-5 * (x @ x)
        assert parse(text).codec.quantize.projects
