"""The positions and symbols of an update that a method sends: the input of lossless coders."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from compressors import BitReader, BitWriter, Compressor, Pipeline, Tensors, UpdateError
from compressors.coders.fixed import unsigned
from fedsim.ground.errors import UsageError
from fedsim.measure.theory.positions import entropy_bits


@dataclass(frozen=True, eq=False)
class Positions:
    """The sorted int64 indices ``sent`` (k,) of one tensor of ``n`` entries, k > 0."""

    sent: np.ndarray
    n: int

    @property
    def entropy(self) -> float:
        """n H(k / n): no code of k random positions takes fewer bits on average."""
        return len(self.sent) * entropy_bits(len(self.sent) / self.n)

    def write(self, code: Any, out: BitWriter, seed: int) -> None:
        """Writes what is sent with ``code``."""
        code.write_positions(self.sent, self.n, out, seed)

    def read(self, code: Any, bits: BitReader, seed: int) -> np.ndarray:
        """The data that ``code`` decodes."""
        indices: np.ndarray = code.read_positions(bits, self.n, len(self.sent), seed)
        return indices


@dataclass(frozen=True, eq=False)
class SymbolsSent:
    """The integers ``sent`` (k,) below ``alphabet`` that stand for one tensor's values, k > 0."""

    sent: Tensor
    alphabet: int

    @property
    def entropy(self) -> float:
        """Bits of k independent symbols with the frequencies that these have."""
        counts = np.unique(unsigned(self.sent), return_counts=True)[1]
        return float(counts @ np.log2(len(self.sent) / counts))

    def write(self, code: Any, out: BitWriter, seed: int) -> None:
        """Writes what is sent with ``code``, which needs no seed."""
        code.write_symbols(self.sent, self.alphabet, out)

    def read(self, code: Any, bits: BitReader, seed: int) -> Tensor:
        """The data that ``code`` decodes."""
        codes: Tensor = code.read_symbols(bits, len(self.sent), self.alphabet)
        return codes


@dataclass(frozen=True, eq=False)
class _Taps:
    """The writing half of both codes: writes nothing and keeps the positions and symbols."""

    positions: list[Positions] = field(default_factory=list)
    symbols: list[SymbolsSent] = field(default_factory=list)
    needs_seed: ClassVar[bool] = False

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        """Keeps ``indices``."""
        if indices.size:
            self.positions.append(Positions(indices.copy(), n))
        return indices

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Keeps ``codes``."""
        if codes.numel():
            self.symbols.append(SymbolsSent(codes.cpu().clone(), alphabet))


def has_pipeline(compressor: Compressor) -> bool:
    """Whether there is a pipeline inside, from which ``patterns`` takes what its coders code."""
    return _tapped(compressor, _Taps()) is not compressor


def patterns(
    compressor: Compressor, updates: Sequence[Tensors], seed: int
) -> tuple[list[Positions], list[SymbolsSent]]:
    """What the pipelines inside ``compressor`` hand to their coders, of first messages.

    Raises ``UsageError`` for an update that the method cannot carry.
    """
    taps = _Taps()
    tapped = _tapped(compressor, taps)
    for update in updates:
        try:
            tapped.write(update, tapped.init(update), BitWriter(), seed)
        except UpdateError as error:
            raise UsageError(str(error)) from error
    return taps.positions, taps.symbols


def _tapped(compressor: Compressor, taps: Any) -> Compressor:
    """A copy of ``compressor`` whose pipelines have these coders; the copy can only write."""

    def change(pipeline: Pipeline) -> Pipeline:
        changed = replace(pipeline, symbols=taps)
        return replace(changed, positions=taps) if pipeline.writes_positions else changed

    with_taps: Compressor = with_pipelines(compressor, change)
    return with_taps


def with_pipelines(part: Any, change: Callable[[Pipeline], Pipeline]) -> Any:
    """``part`` with each pipeline inside changed; itself where there is none."""
    if isinstance(part, Pipeline):
        return change(part)
    if isinstance(part, tuple):
        items = tuple(with_pipelines(item, change) for item in part)
        return part if all(map(operator.is_, items, part)) else items
    if not is_dataclass(part) or isinstance(part, type):
        return part
    values = {f.name: getattr(part, f.name) for f in fields(part) if f.init}
    changed = {name: with_pipelines(value, change) for name, value in values.items()}
    new = {name: value for name, value in changed.items() if value is not values[name]}
    return replace(part, **new) if new else part
