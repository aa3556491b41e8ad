"""Errors are told apart by their types: words in a name or a path mislead nobody."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedsim
from compressors import NotFinite, UpdateError, compress, parse
from fedsim.ground.errors import UsageError, with_cause
from fedsim.settings.grids import sweep_from_toml

HUGE = {"w": torch.tensor([3e38, 3e38])}
CAUSE = "the learning rate"


def told(method: str, update: Any, state: Any = None) -> UpdateError:
    """The error of a message that cannot be made, as a client's round tells it."""
    with pytest.raises(UpdateError) as caught:
        compress(parse(method), update, state)
    return with_cause(caught.value, 3, 0.5)


@pytest.mark.parametrize(
    ("method", "update", "state"),
    [
        ("raw", {"w": torch.tensor([np.nan])}, None),
        ("ef(topk(0.5) | float32)", HUGE, {"residual/w": HUGE["w"]}),
        ("randk(0.5) | float32", HUGE, None),
    ],
    ids=["NaN", "memory", "scaled"],
)
def test_what_is_not_finite_has_a_cause(method: str, update: Any, state: Any) -> None:
    error = told(method, update, state)
    assert isinstance(error, NotFinite)
    assert "(round 3, training loss 0.5: " in str(error) and CAUSE in str(error)


@pytest.mark.parametrize("name", ["NaN", "overflow.weight"])
def test_a_tensor_of_such_a_name_has_not(name: str) -> None:
    error = told("raw", {name: torch.ones(2, dtype=torch.float64)})
    assert not isinstance(error, NotFinite)
    assert str(error).endswith("(round 3, training loss 0.5)")


def test_the_file_is_named_once_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    twice = "batch-size = 1\nbatch_size = 1"
    for text in ("lr = -1", "method = 1", "temporal = []", "lrr = 1", twice):
        file = Path("--lr")
        file.write_text(text)
        with pytest.raises(UsageError, match=r"^--lr: ") as caught:
            sweep_from_toml(file)
        assert str(caught.value).count("--lr: ") == 1


@pytest.mark.parametrize(
    ("updates", "words"),
    [
        (torch.ones(2), "an update is a dict of names to tensors"),
        ([torch.ones(2)], "an update is a dict of names to tensors"),
        ({"w": np.ones(2, np.float32)}, "torch.from_numpy"),
        ({"w": torch.tensor([np.inf])}, "holds NaN or infinity"),
    ],
    ids=["tensor", "tensors", "numpy", "infinite"],
)
def test_measure_refuses_what_a_message_refuses(updates: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        fedsim.measure(updates, "raw")
