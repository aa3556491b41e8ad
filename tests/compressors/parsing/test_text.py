"""The text form: what it prints, what it reads, and what it says about mistakes."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import (
    ByName,
    Compressor,
    ErrorFeedback,
    Flat,
    Float32,
    Golomb,
    Mean,
    OneSided,
    PerTensor,
    Pipeline,
    Raw,
    TopK,
    from_json,
    gradient_dropping,
    parse,
    sbc,
    text,
    to_json,
)

SHARES = st.floats(0, 1, exclude_min=True)
POSITIONS = st.builds(Golomb, st.none() | st.floats(2.0**-40, 1))
CODECS = st.one_of(
    st.builds(Pipeline, st.builds(TopK, SHARES), st.just(Float32()), POSITIONS),
    st.builds(
        Pipeline, st.builds(OneSided, SHARES), st.sampled_from([Float32(), Mean()]), POSITIONS
    ),
)
PATTERNS = st.one_of(
    st.text(max_size=8).filter(lambda t: not {"'", '"'} <= set(t) and t[:5] != "size<"),
    st.integers(0, 9999).map(lambda n: f"size<{n}"),
)


def rules(inner: st.SearchStrategy[Compressor]) -> st.SearchStrategy[Compressor]:
    pairs = st.lists(st.tuples(PATTERNS, inner), min_size=1, max_size=3)
    return st.builds(ByName, pairs.map(tuple))


PLAIN: st.SearchStrategy[Compressor] = st.recursive(
    st.one_of(st.just(Raw()), st.builds(PerTensor, CODECS), st.builds(Flat, CODECS)),
    rules,
    max_leaves=6,
)
ONCE = st.one_of(PLAIN, st.builds(ErrorFeedback, PLAIN))  # a memory inside another is refused
COMPRESSORS = st.one_of(ONCE, rules(ONCE))


@given(COMPRESSORS)
def test_any_compressor_prints_and_parses(compressor: Compressor) -> None:
    assert parse(text(compressor)) == compressor
    assert text(parse(text(compressor))) == text(compressor)


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        ("sbc(0.01)", "ef(per_tensor(one_sided(0.01) | mean | golomb), mask=true)"),
        ("sbc(p=0.01)", "ef(per_tensor(one_sided(0.01) | mean | golomb), mask=true)"),
        ("sbc(1)", "raw"),
        ("sbc(1.0)", "raw"),
        ("raw()", "raw"),
        ("gradient_dropping(0.1)", "ef(per_tensor(topk(0.1) | float32 | golomb))"),
        ("gradient_dropping(0.1, scope=model)", "ef(flat(topk(0.1) | float32 | golomb))"),
        ("gradient_dropping(0.1, 'model')", "ef(flat(topk(0.1) | float32 | golomb))"),
        ("gradient_dropping(1, scope=model)", "raw"),
        ("topk(0.01) | float32", "per_tensor(topk(0.01) | float32 | golomb)"),
        ("topk(1e-2) | float32", "per_tensor(topk(0.01) | float32 | golomb)"),
        (" topk( .01 )|float32|golomb|fixed ", "per_tensor(topk(0.01) | float32 | golomb)"),
        ("topk(1) | float32 | golomb(0.02)", "per_tensor(topk(1) | float32 | golomb(0.02))"),
        ("ef(topk(0.5) | float32)", "ef(per_tensor(topk(0.5) | float32 | golomb))"),
        ("ef(inner=topk(0.5)|float32)", "ef(per_tensor(topk(0.5) | float32 | golomb))"),
        ("ef(flat(one_sided(0.5) | mean))", "ef(flat(one_sided(0.5) | mean | golomb))"),
        ("per_tensor(codec=topk(1)|float32)", "per_tensor(topk(1) | float32 | golomb)"),
        (
            "by_name('*.bias', raw, \"a'b\", topk(1) | float32, 'size<9', ef(raw))",
            "by_name('*.bias', raw, \"a'b\", per_tensor(topk(1) | float32 | golomb), "
            "'size<9', ef(raw))",
        ),
    ],
)
def test_what_is_read_and_printed(source: str, printed: str) -> None:
    assert text(parse(source)) == printed
    assert parse(printed) == parse(source)


def test_parts_print_too() -> None:
    assert text(TopK(0.5)) == "topk(0.5)"
    assert text(Golomb(0.02)) == "golomb(0.02)"
    assert text(Pipeline(OneSided(1e-5), Mean())) == "one_sided(1e-05) | mean | golomb"


def test_names_are_the_functions() -> None:
    assert parse("sbc(0.3)") == sbc(0.3)
    assert parse("gradient_dropping(0.3, scope=model)") == gradient_dropping(0.3, "model")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("", "expected a name before 'the end'"),
        ("|", "expected a name before '|'"),
        ("0.1", "expected a name, not '0.1'"),
        ("topk(0.1) |", "expected a name before 'the end'"),
        ("@raw", "expected a name, not '@raw'"),
        ("ef((raw))", "expected a name, not '('"),
        ("topk(p=q=0.1) | float32", "expected ',' before '='"),
        ("sbc({p})", "{p} stands for a fraction of entries, and none is given"),
        ("ef(topk(0.1) | float32 | golomb", "')' is missing: ef( is not closed"),
        ("sbv(0.1)", "'sbv': did you mean 'sbc'? `fedsim list methods` prints them all; --rows"),
        ("ef(TopK(0.1))", "unknown name 'TopK': did you mean 'topk'?"),
        ("pipeline(0.1)", "unknown name 'pipeline': known are sbc, gradient_dropping, raw"),
        ("ef(ef(raw))", "ef around ef(raw), which has a memory of its own"),
        ("ef(sbc(0.1))", "ef around ef(one_sided(0.1) | mean | golomb, mask=true), which has"),
        ("ef(dgc(0.1))", "ef around dgc(0.1), which has a memory of its own"),
        ("ef(powersgd(2))", "ef around ef(lowrank(2)), which has"),
        ("ef(by_name('*', sbc(0.1)))", "ef around ef(one_sided("),
        ("sbc", "sbc: missing a required argument: 'p', as in 'sbc(0.01)'"),
        ("sbc(0.1, q=2)", "got an unexpected keyword argument 'q'"),
        ("raw(1)", "raw: too many positional arguments"),
        ("sbc(0)", "one_sided: p is 0: a fraction of entries lies above 0 and at most 1"),
        ("sbc(1.5)", "one_sided: p is 1.5: a fraction"),
        ("topk(true) | float32", "topk: p is True: a fraction"),
        ("topk(hello) | float32", "topk: p is 'hello': a fraction"),
        ("topk(raw) | float32", "topk: p is raw: a fraction"),
        ("gradient_dropping(0.1, scope=layer)", "scope is 'layer': give one of tensor, model"),
        ("topk(0.1)", "no quantize part: add one of float32, mean"),
        ("float32 | golomb", "identity sends every entry: leave golomb out"),
        (
            "randk(0.1) | float32 | golomb",
            "randk(0.1) draws its positions from the seed, and none are written: leave golomb out",
        ),
        ("bernoulli(0.1) | float32 | golomb", "bernoulli(0.1) draws its positions from the seed"),
        ("ef(randk(0.1, false) | cnat | golomb)", "randk(0.1, false) draws its positions from"),
        ("float32 | golomb(0.3)", "identity sends every entry: leave golomb(0.3) out"),
        ("golomb", "no quantize part"),
        ("topk(0.1) | one_sided(0.1)", "one_sided is a second sparsify part: one of each"),
        ("topk(0.1) | float32 | mean", "mean is a second quantize part"),
        ("topk(0.1) | raw", "raw is a whole method and cannot stand between '|'"),
        ("topk(0.1) | mean", "mean sends one value per tensor and topk(0.1) mixes signs"),
        ("ef(cnat, mask=1)", "ef: mask is 1: give true or false"),
        ("ef(0.1)", "ef takes a compressor of a whole update, not 0.1"),
        ("ef(hello)", "ef takes a compressor of a whole update, not 'hello'"),
        ("ef('raw')", "ef takes a compressor of a whole update, not 'raw'"),
        ("ef()", "ef: missing a required argument: 'inner'"),
        ("flat(raw)", "flat takes a codec of one tensor (topk(p) | float32), not raw"),
        ("per_tensor(sbc(0.1))", "per_tensor takes a codec of one tensor"),
        ("per_tensor(0.1)", "per_tensor takes a codec of one tensor"),
        ("by_name()", "by_name has no rules"),
        ("by_name('*')", "by_name takes pairs of a quoted pattern and a compressor"),
        ("by_name(raw, '*')", "by_name takes pairs of a quoted pattern and a compressor"),
        ("by_name('*', 0.1)", "0.1 is not a compressor"),
        ("by_name('size<x', raw)", "pattern 'size<x': 'size<' takes a whole number"),
    ],
)
def test_mistakes_are_named(source: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(source)
    assert str(caught.value).startswith(f"method {source!r}: ")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "ordered",
    [
        "topk(0.1) | cnat",
        "topk({p}) | qsgd(7) | golomb | huffman",
        "topk(0.1) | cnat | golomb",
        "qsgd(7) | huffman",
        "topk(0.1) | qsgd(7) | golomb | rle",
    ],
)
def test_parts_stand_in_the_order_in_which_they_work(ordered: str) -> None:
    """Of all orders one is read; the message about any other is that one, as it was typed."""
    compressor = parse(ordered, 0.1)
    assert parse(text(compressor)) == compressor
    for parts in permutations(ordered.split(" | ")):
        if (source := " | ".join(parts)) != ordered:
            with pytest.raises(ValueError) as caught:
                parse(source, 0.1)
            assert str(caught.value).endswith(f": write {ordered!r}")


@given(st.text("sbcraweftopk|(),='\"0.1* ", max_size=30))
def test_any_text_parses_or_is_a_value_error(source: str) -> None:
    try:
        compressor = parse(source)
    except ValueError as error:
        assert repr(source) in str(error)
    else:
        assert parse(text(compressor)) == compressor


def test_a_pattern_without_a_text_form() -> None:
    both = ByName((("'\"", Raw()),))
    with pytest.raises(ValueError, match="both kinds of quotes"):
        text(both)
    assert from_json(to_json(both)) == both


def test_what_is_not_in_the_catalogue() -> None:
    with pytest.raises(ValueError, match="is not in the catalogue: add a row for complex"):
        text(1j)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown method 'zip'"):
        from_json({"name": "zip"})
    with pytest.raises(ValueError, match="unknown method None"):
        from_json({"p": 1})
