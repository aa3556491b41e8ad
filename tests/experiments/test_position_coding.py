"""The experiment on position coders at smoke scale, on the digits that sklearn carries."""

from pathlib import Path

import pandas as pd
import pytest

from tests.fedsim.commands import Typed, typed

__all__ = ["typed"]  # the fixture


@pytest.mark.slow
def test_position_coding_smoke(typed: Typed) -> None:
    said = typed("experiment", "position-coding", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    frame = pd.read_csv(Path("out", "positions.csv"))
    digits = frame[frame["model"] == "digits"]
    assert set(digits["client"]) == {0, 1}
    assert digits.groupby(["setting", "client"]).size().eq(17).all()
    for _, group in frame.groupby(["model", "setting", "client"]):
        bits = group.set_index("coder")["bits_per_position"]
        assert bits["raw32"] == pytest.approx(32, rel=0.01)
        assert bits["auto"] <= bits.drop("auto").min() + 8  # a byte a tensor, one entry at least
        assert bits["golomb"] < bits["fixed"]
    random = frame[frame["model"] == "random"].set_index(["setting", "coder"])
    of_context = random["bits_per_position"].xs("context", level="coder")
    of_golomb = random["bits_per_position"].xs("golomb(exact)", level="coder")
    assert (of_context <= 1.01 * of_golomb).all()
    assert "| digits | sbc-0.01-n10 |" in said.out
    assert Path("out", "positions.png").stat().st_size > 10_000
