"""What ``--only`` chooses."""

import pytest

from fedsim import UsageError
from fedsim.runs.launch import chosen

ROWS = {"dense": 1, "topk": 2, "sbc": 3}


def test_without_only_all_or_the_default() -> None:
    assert chosen(None, ROWS) == ["dense", "topk", "sbc"]
    assert chosen(None, ROWS, default=["sbc"]) == ["sbc"]
    assert chosen(None, ROWS, default=iter(["digits"])) == ["digits"]  # it need not be known


def test_names_in_the_order_that_was_asked_for_each_once() -> None:
    assert chosen(["sbc", "dense", "sbc"], ROWS, default=["topk"]) == ["sbc", "dense"]


@pytest.mark.parametrize("only", [["dense", "vgg"], ["vgg"]])
def test_an_unknown_name(only: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(only, iter(ROWS), "tasks")
    assert str(caught.value) == "--only is 'vgg': tasks are dense, topk, sbc"
