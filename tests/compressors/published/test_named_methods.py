"""Named combinations: what they expand to, what p = 1 leaves, and what their papers promise."""

import math

import pytest
import torch
from torch import Tensor

from compressors import compress, parse, text
from tests.support.generators import whole_numbers

EXPANSIONS = {
    "powersgd(2)": "ef(lowrank(2))",
    "structured_mask(0.1)": "per_tensor(randk(0.1, false) | float32)",
    "sketched(0.1)": "per_tensor(rotate(randk(0.1) | minmax(2)))",
    "sketched(0.1, 4)": "per_tensor(rotate(randk(0.1) | minmax(4)))",
    "q_sparse(0.1)": "ef(per_tensor(topk(0.1) | shrink(dither(7)) | golomb))",
    "q_sparse(0.1, 3)": "ef(per_tensor(topk(0.1) | shrink(dither(3)) | golomb))",
    "topk_cnat(0.1)": "ef(per_tensor(topk(0.1) | cnat | golomb))",
    "signsgd(0.003)": "per_tensor(sign(0.003))",
    "fedpaq(7)": "flat(dither(7))",
    # every entry: no positions and no subsampling, what rounds stays
    "structured_mask(1)": "raw",
    "sketched(1, 4)": "per_tensor(rotate(minmax(4)))",
    "q_sparse(1)": "ef(per_tensor(shrink(dither(7))))",
    "topk_cnat(1)": "ef(per_tensor(cnat))",
}


@pytest.mark.parametrize("name", EXPANSIONS)
def test_expansions(name: str) -> None:
    assert text(parse(name)) == EXPANSIONS[name]
    assert parse(EXPANSIONS[name]) == parse(name)


@pytest.mark.parametrize("name", ["structured_mask", "sketched", "q_sparse", "topk_cnat"])
@pytest.mark.parametrize("p", ["0", "-0.5", "1.5", "true", "'a'"])
def test_bad_fractions(name: str, p: str) -> None:
    with pytest.raises(ValueError, match="a fraction of entries lies above 0 and at most 1"):
        parse(f"{name}({p})")


@pytest.mark.parametrize("bad", ["sketched(0.1, 0)", "sketched(1, 17)", "q_sparse(0.1, 0)"])
def test_bad_settings(bad: str) -> None:
    with pytest.raises(ValueError, match="bits is|levels is"):
        parse(bad)


def spiky(n: int) -> Tensor:
    """A few large entries among many small ones, all different."""
    x = whole_numbers(n, 3) / 4096
    x[:: n // 5] *= 40
    return x


@pytest.mark.parametrize("method", ["sketched(0.25, 1)", "sketched(0.5, 3)", "sketched(1, 2)"])
def test_sketched_updates_are_unbiased(method: str) -> None:
    """The mean over 1500 seeds, entry by entry, in units of its own standard error.

    Of 40 entries the mean square of such a score is 1 with standard deviation sqrt(2 / 40) =
    0.22, as they are nearly independent: below 2.1 is 5 of them. 1500 draws of a bounded
    variable make scores normal enough; the largest of 40 stays below 5 in all but 1 of 40,000.
    """
    x, compressor, draws = spiky(40), parse(method), 1500
    seen = torch.stack(
        [compress(compressor, {"w": x}, seed=s)[0].sent["w"].decoded for s in range(draws)]
    ).double()
    error = seen.std(dim=0) / math.sqrt(draws)
    score = (seen.mean(dim=0) - x.double()) / error
    assert float(score.square().mean()) < 2.1
    assert float(score.abs().max()) < 5
    assert float((error > 0).double().mean()) == 1


def test_a_rotation_helps_a_grid_and_a_random_choice() -> None:
    """Konečný et al. 2016, section 3: large entries stretch the grid, unless they are spread."""
    x = {"w": spiky(1024)}
    for plain in ("minmax(2)", "randk(0.25) | minmax(2)"):
        errors = [
            sum(
                float((compress(parse(m), x, seed=s)[0].sent["w"].decoded - x["w"]).square().sum())
                for s in range(20)
            )
            for m in (plain, f"rotate({plain})")
        ]
        assert errors[1] < 0.8 * errors[0]


def test_the_mask_is_drawn_from_the_seed_and_its_entries_are_exact() -> None:
    """40 of 400 entries as they are, no positions; another message, another mask."""
    x = whole_numbers(400, 5).reshape(20, 20)
    seen = []
    for seed in (1, 2):
        packet, _ = compress(parse("structured_mask(0.1)"), {"w": x}, seed=seed)
        one = packet.sent["w"]
        assert torch.equal(one.values, x.flatten()[one.indices])
        assert packet.spans == {"header": 56, "positions": 0, "values": 32 * 40, "side": 0}
        seen.append(set(one.indices.tolist()))
    assert len(seen[0]) == 40 and seen[0] != seen[1]
