"""Compressors of a user's own in a run: what does not decode to what was sent ends it."""

import json
import pickle
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from compressors import ALL, CATALOGUE, BitReader, BitWriter, Row, SentTensor
from fedsim import run
from fedsim.federation.precheck import check_trainable
from fedsim.ground.errors import RunFailed, UsageError
from fedsim.runs import parallel
from fedsim.settings.sentconfig import SentConfig
from strategies.channel import client_end
from tests.support.runs import small


@dataclass(frozen=True)
class Grows:
    """Decodes ``factor`` times what was sent."""

    factor: float = 2.0
    needs_seed: ClassVar[bool] = False

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        out.float32s(x.numpy())
        return SentTensor(x, ALL, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        return self.factor * torch.from_numpy(bits.float32s(template.numel())).view(template.shape)


@dataclass(frozen=True)
class Draws(Grows):
    """Sends noise of a global generator, as ``source`` says."""

    factor: float = 1.0
    source: str = "torch"

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        drawn = {
            "torch": lambda: torch.rand(x.shape),
            "numpy": lambda: torch.full(x.shape, np.random.rand()),
            "random": lambda: torch.full(x.shape, random.random()),
            "seed": lambda: torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)),
        }
        return super().write(drawn[self.source](), out, seed)


@pytest.mark.parametrize("source", ["torch", "numpy", "random"])
@pytest.mark.parametrize("setting", ["method", "downlink"])
def test_a_method_that_draws_from_a_global_generator_is_refused(
    source: str, setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CATALOGUE, "noisy", Row("noisy", "codec", Draws, "T", "here", "noisy()"))
    before = torch.default_generator.get_state()
    settings: Any = {setting: f"ef(noisy(1, {source}))"}
    with pytest.raises(UsageError, match=rf"--{setting}: method .ef.*noisy.*of .*{source}.* seed"):
        check_trainable(small(**settings))
    assert torch.equal(before, torch.default_generator.get_state())
    check_trainable(small(**{setting: "noisy(1, seed)"}))


@pytest.fixture(autouse=True)
def grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "grows", Row("grows", "codec", Grows, "T", "here", "grows(1)"))


def test_an_uplink_that_decodes_to_something_else_ends_the_run(tmp_path: Path) -> None:
    words = (
        r"round 1: .* client 0: .*PartError: method 'per_tensor\(grows\)': tensor '.*weight': "
        "decoding its message does not give what write"
    )
    with pytest.raises(RunFailed, match=words):
        run(small(method="grows"), tmp_path)


def test_a_client_that_comes_later_is_checked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its own first message, in whatever round that is, and with no other."""
    looked: list[object] = []
    monkeypatch.setattr(client_end, "check_decoded", lambda *_: looked.append(1))
    run(small(method="raw", temporal=1, cohort=1, iterations=12), tmp_path)
    took_part = pd.read_parquet(tmp_path / "clients.parquet")["client"]
    assert len(looked) == took_part.nunique() > 1 and len(took_part) == 12


def test_a_downlink_that_decodes_to_something_else_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"method 'per_tensor\(grows\)': tensor"):
        run(small(downlink="grows"), tmp_path)


def test_its_bits_are_content(tmp_path: Path) -> None:
    summary: dict[str, Any] = run(small(method="grows(1)"), tmp_path).summary
    assert summary["ratio_content"] == pytest.approx(5)  # five iterations a message, 32 bits


def test_a_cell_that_is_run_again_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook's second definition of a name takes the place of the first, in every plan."""
    config = small(method="grows(1)")
    assert isinstance(config.plan.method.compressor.codec, Grows)

    @dataclass(frozen=True)
    class Again(Grows):
        """The cell, edited."""

    monkeypatch.setitem(CATALOGUE, "grows", Row("grows", "codec", Again, "T", "here", "grows(1)"))
    assert type(config.plan.method.compressor.codec) is Again
    assert config.plan.method.text == "per_tensor(grows(1))"


def test_a_config_brings_its_compressor_along(monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(method="grows(1)")
    sent = pickle.dumps(SentConfig(config))
    monkeypatch.delitem(CATALOGUE, "grows")
    assert pickle.loads(sent).config == config
    assert CATALOGUE["grows"].make is Grows


def test_errors_of_ray_are_told_by_their_cause(tmp_path: Path) -> None:
    class Wrapped(Exception):
        cause = ValueError("\x1b[36mkind 'x'\x1b[39m is unknown\nmore")

    parallel.record(small(), tmp_path, Wrapped("\x1b[36mray::attempt()\x1b[39m\n"))
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["error"] == "ValueError: kind 'x' is unknown"
    assert "\x1b" not in (tmp_path / "error.txt").read_text()
