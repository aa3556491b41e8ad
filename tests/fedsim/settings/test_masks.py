"""Momentum masking as part of a method: what masks, what it is called, and when a line warns."""

import pytest

from compressors import compress, from_json, parse, text, to_json
from compressors.grammar import fingerprint, message_text
from compressors.whole.masking import masked, masking, sends_all
from fedsim import RunConfig
from fedsim.search.methods import compressor
from fedsim.settings.masks import momentum_share_forgotten, much_forgotten, resolve_masking
from tests.support.commands import Typed

SBC = "ef(per_tensor(one_sided(0.1) | mean | golomb), mask=true)"
PARTS = "by_name('a', sbc(0.5), 'b', ef(topk(0.5) | float32), '*', raw)"


def test_sbc_is_ef_with_a_mask_in_text_in_python_and_as_json() -> None:
    method = parse("sbc(0.1)")
    assert text(method) == SBC and parse(SBC) == method and from_json(to_json(method)) == method
    inside = parse("by_name('*.bias', raw, '*', sbc(0.1))")
    assert text(inside) == f"by_name('*.bias', raw, '*', {SBC})"
    recoded = compressor("sbc", 0.1, "ans | ans")
    assert text(recoded) == SBC.replace("golomb", "ans | ans")


def test_no_message_depends_on_the_mask() -> None:
    import torch

    bare, update = parse(SBC.replace(", mask=true", "")), {"w": torch.randn(50)}
    assert bare != parse(SBC) and message_text(parse(SBC)) == text(bare)
    assert fingerprint(bare, update) == fingerprint(parse(SBC), update)
    assert compress(bare, update)[0].payload == compress(parse(SBC), update)[0].payload


def test_rules_by_name_mask_their_own_tensors() -> None:
    import torch

    method, update = parse(PARTS), {name: torch.randn(8) for name in "abc"}
    packet, _ = compress(method, update)
    assert masking(method) == "some" and [*masked(method, packet.sent)] == ["a"]
    config = RunConfig(method=PARTS)
    assert config.filled()["momentum_masking"] == text(method)
    assert config.digest != RunConfig.of(method=PARTS, momentum_masking="on").digest
    assert resolve_masking(config, config.plan) == config


@pytest.mark.parametrize(
    ("method", "every"),
    [
        ("ef_sign()", True),
        ("powersgd(2)", True),
        ("ef(threelc(1))", True),
        ("stc(0.1)", False),
        ("ef(dct(8, topk(0.2) | float32))", True),
        ("ef(sketchml(0.3, 16, 4))", False),
    ],
)
def test_where_nothing_is_masked_a_run_keeps_its_name(method: str, every: bool) -> None:
    """What sends every entry has no position to forget: its runs are those of before."""
    assert sends_all(parse(method)) is every
    auto, before = (RunConfig.of(method=method, momentum_masking=m) for m in ("auto", "ef"))
    assert not auto.plan.masks and (auto.digest == before.digest) is every


@pytest.mark.parametrize(
    ("given", "share"),
    [
        ({"method": "sbc(0.1)", "temporal": 1}, 1.0),
        ({"method": "sbc(0.1)", "temporal": 10}, 0.1),
        ({"method": "sbc(0.1)", "temporal": 5}, 0.2),
        ({"method": "sbc(0.1)", "temporal": 1, "momentum": 0.5}, 0.2),
        ({"method": "sbc(0.1)", "temporal": 1, "momentum": 0.0}, 0.0),
        ({"method": "sbc(0.1)", "temporal": 1, "stateless": True}, 0.0),
        ({"method": "stc(0.5)", "temporal": 1}, 0.0),
        ({"method": "stc(0.5)", "temporal": 1, "momentum_masking": "on"}, 5.0),
    ],
)
def test_the_share_of_the_momentum_that_is_forgotten(
    given: dict[str, object], share: float
) -> None:
    config = RunConfig.of(task="digits", **given)
    assert momentum_share_forgotten(config, config.plan) == pytest.approx(share)
    assert (much_forgotten([config], [config.plan]) == "") == (share <= 0.2)  # by a rounding above


def test_a_line_says_where_much_is_forgotten(typed: Typed, no_page: None) -> None:
    asked = ("run", "--temporal", "1", "--iterations", "2", "--evaluate-every", "2")
    said = typed(*asked, "--method", "sbc(0.1)", "--out", "much")
    assert said.code == 0 and said.err.count("u = p / (n (1 - beta)) = 1 ") == 1, said.err
    said = typed(*asked, "--method", "sbc(0.01)", "--out", "little")
    assert said.code == 0 and "u = p" not in said.err
