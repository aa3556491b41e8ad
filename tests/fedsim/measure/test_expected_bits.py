"""Expected bits are those of random vectors, and there are none where the values decide."""

import math

import numpy as np
import pytest
import torch

from compressors import compress, parse
from fedsim.measure.theory import expected_bits

SIGMAS = 5  # of a sum over random gaps
SPARSE = 20_000


@pytest.mark.parametrize(
    "method",
    [
        "raw",
        "sbc(0.01)",
        "stc(0.02)",
        "gradient_dropping(0.01)",
        "topk(0.01) | cnat",
        "topk(0.02) | float32 | golomb(0.3)",
        "one_sided(0.01) | mean",
        "dryden(0.02) | float32",
        "blocks(8, 0.05) | float32",
        "randk(0.1) | cnat(8)",
        "bernoulli(0.1) | float16",
        "randk(0.1, seeded=false) | float32",
        "rtopk(0.02, 0.1) | bfloat16",
        "cnat",
        "dither(7)",
        "dither(8, 2, natural, bucket=512)",
        "dither(7, bucket=100, norm_code='cnat')",
        "terngrad",
        "minmax(3)",
        "codebook(5, 0.1)",
        "sign(0.5)",
        "l1_sign",
        "onebit",
        "topk(0.1) | magnitude(min, 2)",
        "topk(0.1) | ternary()",
        "sketch(64)",
        "then(dither(3), cnat)",
        "rotate(topk(0.05) | float32)",
        "rotate(lloyd(2))",
        "dct(16, topk(0.05) | float32)",
        "topk(0.1) | bins(2)",
        "steps(4, 100)",
        "chunk_topk(0.02, 1000) | float32",
    ],
)
def test_expected_bits_are_those_of_a_random_vector(method: str) -> None:
    """Within five sigmas of a sum of k independent gaps, each of at most b* + 2 bits' spread."""
    x = {"w": torch.from_numpy(np.random.default_rng(1).normal(size=SPARSE).astype("float32"))}
    packet, _ = compress(parse(method), x, seed=3)
    ideal = expected_bits(parse(method), SPARSE)
    assert ideal is not None
    random_count = "bernoulli" in method
    share = 5 * math.sqrt(9 / (0.1 * SPARSE)) / 10 if random_count else 1e-9
    assert packet.spans["values"] == pytest.approx(ideal.values, rel=share)
    assert packet.spans["side"] == ideal.side
    sent = packet.sent["w"].count
    assert abs(packet.spans["positions"] - ideal.positions) <= SIGMAS * 2 * math.sqrt(sent)
    assert (ideal.positions > 0) == (packet.spans["positions"] > 0)
    assert ideal.total == ideal.positions + ideal.values + ideal.side


@pytest.mark.parametrize(
    ("method", "d"),
    [
        ("dryden(0.01) | float32", 60),
        ("dryden(0.03) | float32", 100),
        ("dryden(0.01) | float32", 1),
        ("dryden(0.03) | float32", 150),
        ("bernoulli(0.01) | minmax(3)", 20),
        ("bernoulli(0.1) | steps(4)", 3),
    ],
)
def test_expected_bits_of_few_entries(method: str, d: int) -> None:
    """Where each sign sends one at least, and where often nothing is drawn."""
    rng = np.random.default_rng(4)
    x = {str(i): torch.from_numpy(rng.normal(size=d).astype("float32")) for i in range(2000)}
    spans, ideal = compress(parse(method), x, seed=3)[0].spans, expected_bits(parse(method), d)
    assert ideal is not None
    assert spans["values"] / 2000 == pytest.approx(ideal.values, rel=0.12)
    assert spans.get("side", 0) / 2000 == pytest.approx(ideal.side, rel=0.12)


@pytest.mark.parametrize(
    "method",
    [
        "cint",
        "threshold(1) | float32",
        "nonzero | cnat",
        "lowrank(2)",
        "topk(0.1) | float32 | golomb(fit)",
        "by_name('*', raw)",
    ],
)
def test_no_formula_where_the_values_or_shapes_decide(method: str) -> None:
    assert expected_bits(parse(method), 1000) is None


def test_an_exact_golomb_code_takes_less_than_equation_5() -> None:
    """At this fraction by 2.5 %, ten times what random gaps differ by."""
    x = {"w": torch.from_numpy(np.random.default_rng(2).normal(size=100_000).astype("float32"))}
    method = parse("topk(0.214) | float32 | golomb(exact)")
    packet, _ = compress(method, x, seed=3)
    ideal, of_rice = (
        expected_bits(m, 100_000) for m in (method, parse("topk(0.214) | float32 | golomb"))
    )
    assert ideal is not None and of_rice is not None
    assert packet.spans["positions"] == pytest.approx(ideal.positions, rel=0.005)
    assert of_rice.positions > 1.02 * ideal.positions
