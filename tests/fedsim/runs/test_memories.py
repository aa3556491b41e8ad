"""Methods with a memory: refused before a run where it would grow, and named where it did."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from torch import Tensor

from compressors import (
    ALL,
    CATALOGUE,
    BitReader,
    BitWriter,
    ErrorFeedback,
    Row,
    SentTensor,
    add_rows,
    parse,
)
from compressors.whole.growth import may_grow
from compressors.whole.keepers import parts_of
from fedsim import RunFailed, UsageError, run
from fedsim.runs import sweep
from fedsim.runs.sweep import Cell
from fedsim.settings.methods import with_fraction
from tests.support.markdown import ROOT
from tests.support.ownmethods import FOLDER
from tests.support.runs import small


@dataclass(frozen=True)
class Tripled:
    """Three times every entry: theory knows no rule for it."""

    needs_seed: ClassVar[bool] = False

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        out.float32s((3 * x).numpy())
        return SentTensor(3 * x, ALL, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        import torch

        return torch.from_numpy(bits.float32s(template.numel())).view(template.shape)


@pytest.fixture(autouse=True)
def tripled(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("tripled", "codec", Tripled, "T", "here", "tripled")
    monkeypatch.setitem(CATALOGUE, "tripled", row)


REFUSED = {
    "method": ({"method": "ef(topk(0.01) | qsgd(7))"}, "--method: ef around topk(0.01) | dit"),
    "downlink": ({"downlink": "ef(qsgd(7))"}, "--downlink: ef around dither(7): "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_for_the_tasks_tensors_before_anything_is_written(
    case: str, tmp_path: Path
) -> None:
    settings, words = REFUSED[case]
    with pytest.raises(UsageError, match="entries, so that the memory would grow") as error:
        run(small(**settings), tmp_path / "run")
    assert str(error.value).startswith(words)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UsageError, match="entries, so that the memory would grow"):
        sweep.check_sweep([Cell("one", small(**settings))], jobs=1)


def test_a_run_whose_memory_grows_names_its_method(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"method": "ef(tripled)", "temporal": 1, "iterations": 120}
    with pytest.raises(RunFailed) as error:
        run(small(**settings), tmp_path)
    assert "nothing is known of the errors of tripled (try" in str(error.value)
    assert "--lr" not in str(error.value)


def test_a_run_whose_learning_rate_is_too_high_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="learning rate") as error:
        run(small(lr=1e30, clients=2), tmp_path)
    assert "memory may" not in str(error.value)


def test_no_experiment_is_refused() -> None:
    methods: set[str] = set()
    for path in ROOT.glob("experiments/*/results/*/runs.toml"):
        cells = tomllib.loads(path.read_text(encoding="utf-8"))["cells"].values()
        methods |= {cell[key] for cell in cells for key in ("method", "downlink") if key in cell}
    methods.remove("relay")  # which encodes nothing
    with patch.dict(CATALOGUE):
        add_rows(str(FOLDER))
        parts = [part for m in methods for part in parts_of(parse(with_fraction(m, 0.01)))]
    found = [part for part in parts if isinstance(part, ErrorFeedback)]
    assert len(found) > 30
    assert [one for one in found if may_grow(one.inner)] == []
