"""Rows that a user adds: what is wrong with them is said where they are written, or first used."""

import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from compressors import CATALOGUE, Raw, Row, TopK, own_rows, parse, text
from tests.support.ownparts import Halves, Whole


@dataclass(frozen=True)
class Missing:
    """A sparsifier without most of one."""

    p: float
    unit: int  # a field without a default is there all the same

    def select(self, x: Any, seed: int) -> Any:
        return x, 1.0


@dataclass(frozen=True)
class NoReader(Halves):
    """A quantizer that cannot be read."""

    read_side: ClassVar[Any] = None


class Plain:
    """No dataclass at all."""

    needs_seed = False


@dataclass
class Thawed(Plain):
    """A dataclass whose settings may change."""


def row(kind: Any, made: Any, name: Any = "mine") -> Row:
    return Row(name, kind, made, "A test's", "here", "mine")


@pytest.mark.parametrize(
    ("kind", "made", "words"),
    [
        ("sparsfier", TopK, "row 'mine': kind 'sparsfier' is unknown: sparsifier, quantizer, pos"),
        ("sparsifier", Missing, "Missing lacks needs_seed, one_sign, count: the kind 'sparsifier'"),
        ("quantizer", NoReader, "NoReader lacks read_side: the kind 'quantizer' needs"),
        ("codec", Raw(), r"make is Raw\(\): a class or a function"),
        ("codec", Plain, r"Plain is not a frozen dataclass: write @dataclass\(frozen=True\) above"),
        ("codec", Thawed, "Thawed is not a frozen dataclass"),
        ("compressor", Whole, "Whole lacks init: the kind 'compressor' needs them$"),
    ],
)
def test_a_row_that_cannot_be(kind: Any, made: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        row(kind, made)


@pytest.mark.parametrize("name", ["", "top k", "0.1", "a|b", None])
def test_a_name_that_cannot_be_read(name: Any) -> None:
    with pytest.raises(ValueError, match="a name is letters, digits and underscores"):
        row("codec", Whole, name)


def test_a_key_that_is_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "other", row("codec", Whole))
    with pytest.raises(ValueError, match=r"CATALOGUE\['other'\] is the row 'mine': give both one"):
        parse("other")


@pytest.mark.parametrize(
    ("kind", "made", "words"),
    [
        ("method", None, "mine made None, which lacks needs_seed, init, write, read: the kind"),
        ("quantizer", TopK(0.1), "which lacks quantize, read_side, dequantize: the kind"),
    ],
)
def test_a_function_that_makes_something_else(
    kind: Any, made: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CATALOGUE, "mine", row(kind, lambda: made))
    with pytest.raises(ValueError, match=words):
        parse("mine")


def test_a_method_may_be_a_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "mine", row("method", lambda: parse("cnat").codec))
    assert parse("mine") == parse("per_tensor(cnat)")


def test_own_rows_are_those_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_rows() == {}
    mine, other = row("codec", Whole), row("codec", Whole, "raw")
    monkeypatch.setitem(CATALOGUE, "mine", mine)
    monkeypatch.setitem(CATALOGUE, "raw", other)
    assert own_rows() == {"mine": mine, "raw": other}


def test_a_class_of_the_package_that_lacks_its_rows_name() -> None:
    misnamed = Row("largest", "sparsifier", "sparsify.topk:TopK", "T", "here", "largest(0.1)")
    with pytest.raises(ValueError, match='carry this name: write codec_id: .* = "largest" in the'):
        _ = misnamed.make


def test_a_row_names_its_class_in_another_process_too() -> None:
    """Rows travel to workers by pickle, classes by their modules."""
    mine = row("codec", Whole, "mine")
    Whole.codec_id = "another"
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert text(Whole()) == "mine"


def test_a_method_may_be_an_equation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of settings stand for their values, and one number of a setting for another method."""
    equation = "mine(p, bits=2, scale=least) = ef(topk(p) | steps(bits)); p = 1: lloyd(1, scale)"
    mine = Row("mine", "method", equation, "A test's", "here", "mine(0.1)")
    monkeypatch.setitem(CATALOGUE, "mine", pickle.loads(pickle.dumps(mine)))
    assert text(parse("mine(0.1)")) == "ef(per_tensor(topk(0.1) | steps(2) | golomb))"
    assert parse("mine(0.1, 4)") == parse("mine(bits=4, p=0.1)") == parse("ef(topk(.1) | steps(4))")
    assert parse("mine({p})", 0.3) == parse("mine(0.3)")
    assert text(parse("mine(1.0)")) == "per_tensor(lloyd(1, 'least'))"
    for source, words in (
        ("mine", "mine: missing a required argument: 'p', as in 'mine"),
        ("mine(true)", r"method 'mine\(true\)': topk: p is True"),
        ("mine(0.1, 99)", r"method 'mine\(0.1, 99\)': steps: bits is 99"),
    ):
        with pytest.raises(ValueError, match=words):
            parse(source)


def test_an_equation_that_says_nothing() -> None:
    with pytest.raises(ValueError, match=r"'mine\(p\)' is not a method: write 'name\(p\) = topk"):
        row("method", "mine(p)")
    with pytest.raises(ValueError, match=r"row 'mine': make is 'mine\(\) = fixed': a class or a"):
        row("coder", "mine() = fixed")


def test_a_compressor_without_keeps_has_the_default_from_its_row() -> None:
    members = {"needs_seed": False, "init": dict, "write": dict, "read": dict}
    own: Any = dataclass(frozen=True)(type("Own", (), members))
    row("compressor", own)
    assert own.keeps is None
    kept: Any = dataclass(frozen=True)(type("Kept", (), members | {"keeps": ("residual",)}))
    row("compressor", kept)
    assert kept.keeps == ("residual",)
