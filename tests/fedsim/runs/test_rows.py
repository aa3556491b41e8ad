"""Rows of a run's tables, packed: what comes back and the tables are those of dictionaries."""

import io
import math
import random
from typing import Any

import pandas as pd
import pytest

from fedsim.ground.columns import Rows, rows_of

NAN = float("nan")
KINDS: dict[str, list[Any]] = {
    "whole": [0, -3, 2**40, 2**63 - 1],
    "number": [0.5, NAN, float("inf"), -0.0],
    "text": ["", "ab" * 16, "why: none"],
    "word": ["größe", "ab", ""],
    "ends": ["a\0", "a"],
    "mixed": [1, 2.5, NAN],
    "flag": [True, False],
    "none": [None, "a"],
    "large": [2**70, 1],
}


def made(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows whose names change on the way: a column comes late, another is missing at times."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        names = [n for n in KINDS if n != "mixed" or number > count // 2]
        if draw.random() < 0.01:
            names.remove("flag")
        rows.append({"row": number} | {name: draw.choice(KINDS[name]) for name in names})
    return rows


def stored(frame: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.to_parquet(file, index=False)
    return file.getvalue()


@pytest.mark.parametrize("count", [1, 255, 256, 511, 512, 513, 1500])
def test_rows_come_back_and_make_the_table_of_dictionaries(count: int) -> None:
    wanted = made(count, seed=count)
    rows = Rows(wanted)
    assert repr([*rows]) == repr(wanted) and len(rows) == count
    assert repr([rows[place] for place in range(-1, count)]) == repr([wanted[-1], *wanted])
    assert repr(rows[-5:]) == repr(wanted[-5:])
    pd.testing.assert_frame_equal(rows.frame(), pd.DataFrame(wanted), check_exact=True)
    assert repr(rows.frame().to_dict("list")) == repr(pd.DataFrame(wanted).to_dict("list"))
    plain = [{n: x for n, x in row.items() if n != "large"} for row in wanted]
    frame = Rows(plain).frame()
    assert stored(frame) == stored(pd.DataFrame(plain))
    assert [*rows_of(frame).frame()] == [*frame] and len(rows_of(frame)) == count


def test_a_copy_goes_on_alone_and_no_rows_are_no_table() -> None:
    first = Rows(made(700, seed=1))
    second = Rows(first)
    second.extend([{"row": 700}])
    assert len(first) == 700 and len(second) == 701 and repr(first[699]) == repr(second[699])
    pd.testing.assert_frame_equal(Rows().frame(), pd.DataFrame([]))
    with pytest.raises(IndexError):
        first[700]


def test_a_value_that_stays_is_held_once_and_zeros_keep_their_signs() -> None:
    given = [
        {"same": 7, "nan": NAN, "zero": -0.0 if n % 2 else 0.0, "text": "ab"} for n in range(1000)
    ]
    rows = Rows(given)
    once = {name: column.strides == (0,) for name, column in rows._packed[0].items()}
    assert once == {"same": True, "nan": True, "zero": False, "text": True}
    assert [math.copysign(1, row["zero"]) for row in rows] == [1, -1] * 500
    assert [row["same"] for row in rows] == [7] * 1000 and rows[3]["text"] == "ab"
    pd.testing.assert_frame_equal(rows.frame(), pd.DataFrame(given))
