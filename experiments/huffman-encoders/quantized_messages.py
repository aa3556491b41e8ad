"""The paper's quantizers, and the symbols of a message before any encoder has seen them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from compressors import (
    BitWriter,
    Compressor,
    Dither,
    ErrorFeedback,
    Flat,
    Identity,
    Natural,
    PerTensor,
    Pipeline,
    Quantizer,
    State,
    SymbolCode,
    TernGrad,
)

LIFTS = {"flat": Flat, "per_tensor": PerTensor}
_T = TypeVar("_T")


def progress(items: Sequence[_T], title: str) -> Iterable[_T]:
    """The items, with a bar on stderr where that is a terminal."""
    console = Console(stderr=True)
    return track(items, title, console=console, transient=True, disable=not console.is_terminal)


@dataclass(frozen=True)
class Quantized:
    """A quantizer as the paper uses it: as an object, as people type it, with residuals or not."""

    quantizer: Quantizer
    text: str
    residuals: bool = False

    def method(self, lift: str, code: str) -> str:
        """The whole method as people type it."""
        inner = f"{lift}({self.text} | {code})"
        return f"ef({inner})" if self.residuals else inner

    def compressor(self, lift: str, code: SymbolCode) -> Compressor:
        """The same with a symbol code that need not be in the catalogue."""
        made = LIFTS[lift](Pipeline(Identity(), self.quantizer, symbols=code))
        return ErrorFeedback(made) if self.residuals else made


QUANTIZERS = {
    "RD": Quantized(Dither(256), "dither(256)"),
    "TQ": Quantized(TernGrad(None), "terngrad(none)", residuals=True),
    "CNat": Quantized(Natural(), "cnat"),
}


@dataclass
class Recording:
    """The symbols of one message, a tensor at a time (``flat``: one), and what goes beside them.

    ``side_bits`` are the norms of RD and TQ, which every encoder leaves as they are.
    """

    quantizer: str
    lift: str
    moment: float
    alphabet: int
    side_bits: int
    codes: list[Tensor]

    @property
    def entries(self) -> int:
        """Entries of the update."""
        return sum(codes.numel() for codes in self.codes)


@dataclass(eq=False)  # a part of a method is hashable
class _Tap:
    """A symbol code that writes nothing and keeps what it was to write."""

    codes: list[Tensor] = field(default_factory=list)
    alphabet: int = 0

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        self.codes.append(codes)
        self.alphabet = alphabet


def tapped(
    name: str, lift: str, moment: float, update: dict[str, Tensor], state: State | None, seed: int
) -> Recording:
    """The symbols that a message of ``update`` holds, with this memory and seed."""
    tap, out = _Tap(), BitWriter()
    compressor = QUANTIZERS[name].compressor(lift, tap)
    compressor.write(update, compressor.init(update) if state is None else state, out, seed)
    return Recording(name, lift, moment, tap.alphabet, out.position, tap.codes)


@dataclass
class Recorded:
    """What the runs of one task left: scores by quantizer (and ``baseline``), and recordings.

    ``facts`` holds what the tables say of the runs: metric, trivial score, iterations, data.
    """

    scores: dict[str, float]
    facts: dict[str, Any]
    recordings: list[Recording]

    def save(self, path: Path) -> None:
        """All in one .npz: the codes of recording i as ``codes-i``, the rest as JSON."""
        rows = [
            [r.quantizer, r.lift, r.moment, r.alphabet, r.side_bits, [c.numel() for c in r.codes]]
            for r in self.recordings
        ]
        about = json.dumps({"scores": self.scores, "facts": self.facts, "rows": rows})
        codes = {f"codes-{i}": torch.cat(r.codes).numpy() for i, r in enumerate(self.recordings)}
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, about=np.array(about), **codes)

    @classmethod
    def load(cls, path: Path) -> "Recorded":
        """What ``save`` stored."""
        with np.load(path) as stored:
            about = json.loads(str(stored["about"]))
            codes = [torch.from_numpy(stored[f"codes-{i}"]) for i in range(len(about["rows"]))]
        recordings = [
            Recording(*row, list(torch.split(whole, sizes)))
            for (*row, sizes), whole in zip(about["rows"], codes, strict=True)
        ]
        return cls(about["scores"], about["facts"], recordings)
