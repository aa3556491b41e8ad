"""What `measure` recommends below its table."""

import shlex

import pandas as pd

from compressors.grammar import split_text
from fedsim.measure.advice import Advice, advice_text, recommend, search_command

NAMES = ["method", "ratio", "relative_error", "compress_ms", "decompress_ms", "error"]
ROWS = [
    ("sbc(0.01)", 386.0, 0.98, 4.0, 1.0, ""),
    ("topk(0.01) | cnat", 186.0, 0.97, 1.0, 1.0, ""),
    ("ef_sign", 32.0, 0.5, 0.1, 0.1, ""),
    ("qsgd(1)", 40.0, 5.7, 0.01, 0.01, ""),
    ("broken", 50.0, 0.1, 0.0, 0.0, "cannot"),
    ("raw", 0.9999, 0.0, 0.3, 0.2, ""),
]
FRAME = pd.DataFrame(ROWS, columns=NAMES)


def test_the_best_by_error_and_by_time_at_each_compression() -> None:
    advised = [(a.factor, a.near, a.fast) for a in recommend(FRAME)]
    assert advised == [
        (1, "raw", "ef_sign"),
        (10, "ef_sign", "ef_sign"),
        (100, "topk(0.01) | cnat", "topk(0.01) | cnat"),
    ]


def test_it_is_told_with_what_was_not_found() -> None:
    text = advice_text(recommend(FRAME))
    assert "the fastest is ef_sign (0.20 ms)" in text
    assert "None that was tried compresses 1000 times." in text


def test_the_command_searches_over_the_fraction() -> None:
    command = search_command(recommend(FRAME))
    head, methods, _ = command.split("'")
    assert head == "fedsim search --task TASK --methods "
    assert split_text(methods, ";") == ["raw", "ef_sign", "topk({p}) | cnat"]


def test_the_command_quotes_what_a_shell_would_read() -> None:
    rule = "by_name('size<256', raw, '*', topk(0.1) | float32)"
    command = search_command([Advice(1, rule, 0.1, "raw", 0.1)])
    typed = shlex.split(command)
    assert split_text(typed[-1], ";") == [rule.replace("0.1", "{p}"), "raw"]
    assert typed[-2] == "--methods"


def test_a_method_with_a_server_of_its_own_is_not_recommended() -> None:
    """Its first message is dense, and says nothing of those that follow."""
    rows = [("marina(cnat, 0.1)", 1.0, 0.0, 0.0, 0.0, ""), ("ef21(cnat)", 3.5, 0.1, 0.0, 0.0, "")]
    assert recommend(pd.DataFrame(rows, columns=NAMES)) == []
    more = pd.DataFrame([*rows, ROWS[-1]], columns=NAMES)
    assert [(a.near, a.fast) for a in recommend(more)] == [("raw", "raw")]


def test_nothing_is_recommended_of_nothing() -> None:
    assert recommend(FRAME[FRAME["method"] == "qsgd(1)"]) == []
