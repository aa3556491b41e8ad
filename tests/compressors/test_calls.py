"""The grammar of calls by itself: what it reads, how it splits, and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors.grammar import Call, read_call, split_text, value


def test_a_call_is_a_name_with_arguments_and_named_arguments() -> None:
    call = read_call(" pace( 0.5, most=inner(1, 'a,b)=|') , 768 kbit/s, ) ")
    assert call.name == "pace" and call.called
    assert call.arguments == [Call("0.5"), Call("768 kbit/s")]
    assert call.named == {"most": Call("inner", [Call("1"), Call("'a,b)=|'")], called=True)}
    assert read_call("fixed") == Call("fixed") and read_call("fixed()") == Call(
        "fixed", called=True
    )
    assert read_call("a | b(c|d)") == Call(
        "|", [Call("a"), Call("b", [Call("|", [Call("c"), Call("d")])], called=True)]
    )
    assert read_call("(1, 2)") == Call("", [Call("1"), Call("2")], called=True)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("", "expected a name before 'the end'"),
        ("a(b", "')' is missing: a( is not closed"),
        ("a)", "unexpected ')'"),
        ("a(b)c", "unexpected 'c'"),
        ("a=1", "unexpected '='"),
        ("a(,)", "expected a name before ','"),
        ("a(b=)", "expected a name before ')'"),
        ("a(b(c) d)", "expected ',' before 'd'"),
        ("a(b=1, b=2)", "b is given twice"),
        ("a('b)", 'cannot read "\'b)"'),
        ("a(" * 50_000, "nested too deeply"),
        ("x" * 600 + "(", "')' is missing: " + "x" * 40),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_call_is_told(source: str, why: str) -> None:
    with pytest.raises(ValueError) as error:
        read_call(source)
    assert str(error.value).startswith(why) and len(str(error.value)) < 100


@given(st.text("ab()|,='\" 1", max_size=12))
def test_any_text_is_a_call_or_a_value_error(source: str) -> None:
    try:
        call = read_call(source)
    except ValueError:
        return
    assert read_call(str(call)) == call


def test_words_as_python_has_them() -> None:
    read_as = {
        "1": 1,
        "+1.5": 1.5,
        "-.5e-1": -0.05,
        "'1'": "1",
        '"a b"': "a b",
        "none": None,
        "False": False,
        "TRUE": True,
        "model": "model",
    }
    assert {word: value(word) for word in read_as} == read_as
    assert type(value("1")) is int
    for word in ("1 2", "5Mbit", "@", "1.2.3", "9" * 401, ""):
        with pytest.raises(ValueError):
            value(word)


def test_parts_are_split_outside_of_parentheses_and_quotes() -> None:
    assert split_text("a(1, 2), 'x, y' ,, it's") == ["a(1, 2)", "'x, y'", "", "it's"]
    assert split_text("by_name('*;', raw); raw;", ";") == ["by_name('*;', raw)", "raw", ""]
