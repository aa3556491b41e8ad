"""What a run refuses: one table of settings, and of what the error says of each."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compressors import parse
from fedsim import RunConfig, UsageError
from fedsim.settings.config import flat_settings, run_from_flat
from strategies import DIANA, EF21, MARINA, DelayedDSGD, FetchSGD, PermK, build

TABLE = Path(__file__).with_name("refused.txt")


def values(text: str) -> dict[str, Any]:
    """``a=1, b="x"`` as a dict; nan is the number."""
    call: Any = ast.parse(f"f({re.sub('=nan(?=,|$)', '=1e999-1e999', text)})", mode="eval").body
    return {word.arg: value(word.value) for word in call.keywords}


def value(node: ast.expr) -> Any:
    return float("nan") if isinstance(node, ast.BinOp) else ast.literal_eval(node)


def rows() -> Iterator[Any]:
    given = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        settings, arrow, words = line.partition(" => ")
        if arrow:
            yield pytest.param(values(given) | values(settings), words.split(" ~ "), id=line[:60])
        elif line.startswith("["):
            given = line[1:-1]


@pytest.mark.parametrize(("settings", "words"), [*rows()])
def test_it_is_refused(settings: dict[str, Any], words: list[str]) -> None:
    """In Python, and by the names of flags, as from a file."""
    with pytest.raises(UsageError) as error:
        RunConfig.of(**settings)
    assert all(word in str(error.value) for word in words), error.value
    assert str(error.value).count("\n") <= 1
    if not any(value is None for value in settings.values()):
        with pytest.raises(UsageError):
            run_from_flat(flat_settings(settings, "here", flags=True))


@pytest.mark.parametrize(
    ("strategy", "uplink", "more", "words"),
    [
        (DelayedDSGD, "diana(cnat)", {}, "messages of diana are read by strategy diana alone"),
        (DelayedDSGD, "raw", {"downlink": parse("ef21(cnat)")}, "messages of ef21 are read by"),
        (EF21(), "raw", {}, "uplink is .*give 'ef21"),
        (DIANA(), "raw", {}, "uplink is .*give 'diana"),
        (DIANA(), "diana(cnat)", {"downlink": parse("ef21(cnat)")}, "messages of ef21 are read by"),
        (PermK(), "permk(3)", {"clients": 4}, r"uplink is permk\(3\).*give permk\(4\)"),
        (FetchSGD(), "raw", {}, "uplink is .*give 'fetchsgd"),
        (MARINA(), "raw", {"clients": 4}, "uplink is raw.*give 'marina"),
        (MARINA(), "marina(cnat, 0.1)", {"clients": 4, "cohort": 2}, "cohort is 2.*give 4"),
    ],
)
def test_a_strategy_refuses_it_when_it_is_built(
    strategy: Any, uplink: str, more: dict[str, Any], words: str
) -> None:
    given = {"clients": 2} | more
    with pytest.raises(ValueError, match=words):
        if strategy is DelayedDSGD:
            strategy(parse(uplink), **given)
        else:
            build(strategy, parse(uplink), **given)
