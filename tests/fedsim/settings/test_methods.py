"""From a user's word for a method to a compressor."""

import pytest

from compressors import Raw, gradient_dropping, sbc, text
from compressors.whole.keepers import parts_of
from fedsim.ground.errors import UsageError
from fedsim.settings.methods import compressor_of, recorded, resolve, takes_fraction, with_fraction


def test_names_take_the_sparsity() -> None:
    method = resolve("sbc", 0.01)
    assert method.compressor == sbc(0.01)
    assert (method.gradient, method.residuals) == (0.01, True)
    assert method.text == "ef(per_tensor(one_sided(0.01) | mean | golomb))"
    assert resolve(" gradient_dropping ", 0.5).compressor == gradient_dropping(0.5)


def test_a_place_for_the_sparsity() -> None:
    method = resolve("ef(flat(topk({p}) | float32 | golomb))", 0.25)
    assert method.compressor == gradient_dropping(0.25, scope="model")
    assert method.gradient == 0.25


@pytest.mark.parametrize("p", [1e-5, 0.001, 1 / 3, 0.1 + 0.2])
def test_the_sparsity_arrives_exactly(p: float) -> None:
    assert resolve("sbc", p).compressor == sbc(p)


def test_texts_carry_their_own() -> None:
    assert resolve("sbc(0.05)", None).gradient == 0.05
    method = resolve("topk(0.1) | float32 | golomb", None)
    assert (method.gradient, method.residuals) == (0.1, False)
    rules = "ef(by_name('size<10', raw, '*', per_tensor(topk(0.2) | float32 | golomb)))"
    assert resolve(rules, None).gradient == 0.2


def test_one_is_dense() -> None:
    for method in (resolve("sbc", 1), resolve("gradient_dropping", 1.0), resolve("raw", 1)):
        assert method.compressor == Raw()
        assert (method.gradient, method.residuals) == (1.0, False)
    assert resolve("raw", None).gradient == 1.0


def test_a_name_takes_a_fraction() -> None:
    with pytest.raises(UsageError, match="--method is 'sbc'.*--gradient P"):
        resolve("sbc", None)


def test_published_methods_without_a_fraction_take_none() -> None:
    """Their bare names are whole methods, or lack something else."""
    assert not takes_fraction("ef_sign") and not takes_fraction("powersgd")
    assert resolve("ef_sign", None).gradient == 1.0
    with pytest.raises(UsageError, match="'powersgd' has no place for it"):
        resolve("powersgd", 0.1)


def test_whole_texts() -> None:
    assert compressor_of("sbc(0.1)") == compressor_of(with_fraction("sbc", 0.1)) == sbc(0.1)
    assert with_fraction("sbc(0.2)", 0.1) == "sbc(0.2)"
    with pytest.raises(UsageError, match=r"'sbc' has no fraction.* as in 'sbc\(0.01\)', or else$"):
        compressor_of("sbc", "or else")
    with pytest.raises(UsageError, match="unknown name 'zip'"):
        compressor_of("zip")


def test_the_fraction_of_rules_by_name_is_the_last_ones():
    rules = "by_name('size<1000', sbc(0.1), '*', {})"
    assert resolve(rules.format("sbc({p})"), 0.01).gradient == 0.01
    assert resolve(rules.format("sbc(0.02)"), None).gradient == 0.02
    assert resolve(rules.format("raw"), None).gradient == 1
    within = "ef(by_name('size<1000', topk(0.1) | float32, '*', topk(0.03) | float32))"
    assert resolve(within, None).gradient == 0.03


class Unspoken(float):
    """A number that cannot be printed: who asks for its text has not carried the value."""

    def __repr__(self) -> str:
        raise AssertionError("a gradient sparsity was printed")

    __str__ = __format__ = __repr__


@pytest.mark.parametrize("method", ["sbc", "topk({p}) | float32", "gradient_dropping"])
def test_the_gradient_sparsity_reaches_the_selector_as_the_number_it_is(method: str) -> None:
    share = Unspoken(0.1 + 0.2)
    resolved = resolve(method, share)
    assert resolved.gradient is share
    assert any(getattr(part, "p", None) == share for part in parts_of(resolved.compressor))


@pytest.mark.parametrize(
    ("method", "p", "form"),
    [
        ("topk({p}) | codebook(6, 0.1)", 0.1, "topk({p}) | codebook(6, 0.1)"),
        ("topk({p}) | codebook(6, 0.1)", 0.05, "topk({p}) | codebook(6, 0.1)"),
        ("topk({p}) | codebook(6, {p})", 0.1, "topk({p}) | codebook(6, {p})"),
        (" sbc ", 0.1, "sbc"),
        ("sbc({p})", 0.1, "sbc({p})"),
        ("sbc(1e-1)", None, "sbc(1e-1)"),
        ("topk(0.1) | codebook(6, 0.1)", None, "topk(0.1) | codebook(6, 0.1)"),
        # The text of a compressor that is a published method has its name.
        ("ef(per_tensor(one_sided(0.1) | mean | golomb), mask=true)", None, "sbc"),
        (
            "ef(per_tensor(one_sided(0.1) | mean | golomb))",
            None,
            "ef(per_tensor(one_sided(0.1) | mean | golomb))",
        ),
    ],
)
def test_a_form_is_the_text_as_typed(method: str, p: float | None, form: str) -> None:
    known = resolve(method, p)
    assert recorded(method, text(known.compressor), known.gradient)["form"] == form
