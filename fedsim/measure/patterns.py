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
    """The sorted int64 ``indices`` (k,) that one tensor of ``n`` entries sends, k > 0."""

    indices: np.ndarray
    n: int

    @property
    def count(self) -> int:
        """k."""
        return int(self.indices.size)

    @property
    def entropy(self) -> float:
        """n H(k / n): no code of k random positions takes fewer bits on average."""
        return self.count * entropy_bits(self.count / self.n)

    @property
    def sent(self) -> np.ndarray:
        """The data that a coder has to restore."""
        return self.indices

    def write(self, code: Any, out: BitWriter, seed: int) -> None:
        """Writes what is sent with ``code``."""
        code.write_positions(self.indices, self.n, out, seed)

    def read(self, code: Any, bits: BitReader, seed: int) -> np.ndarray:
        """The data that ``code`` decodes."""
        indices: np.ndarray = code.read_positions(bits, self.n, self.count, seed)
        return indices


@dataclass(frozen=True, eq=False)
class SymbolsSent:
    """The integers ``codes`` (k,) below ``alphabet`` that stand for one tensor's values, k > 0."""

    codes: Tensor
    alphabet: int

    @property
    def count(self) -> int:
        """k."""
        return self.codes.numel()

    @property
    def entropy(self) -> float:
        """Bits of k independent symbols with the frequencies that these have."""
        counts = np.unique(unsigned(self.codes), return_counts=True)[1]
        return float(counts @ np.log2(self.count / counts))

    @property
    def sent(self) -> Tensor:
        """The data that a coder has to restore."""
        return self.codes

    def write(self, code: Any, out: BitWriter, seed: int) -> None:
        """Writes what is sent with ``code``, which needs no seed."""
        code.write_symbols(self.codes, self.alphabet, out)

    def read(self, code: Any, bits: BitReader, seed: int) -> Tensor:
        """The data that ``code`` decodes."""
        codes: Tensor = code.read_symbols(bits, self.count, self.alphabet)
        return codes


@dataclass(frozen=True, eq=False)
class _KeptPositions:
    """The writing half of a position code: writes nothing and keeps the positions."""

    per_tensor: list[Positions] = field(default_factory=list)
    needs_seed: ClassVar[bool] = False

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        """Keeps ``indices``."""
        if indices.size:
            self.per_tensor.append(Positions(indices.copy(), n))
        return indices


@dataclass(frozen=True, eq=False)
class _KeptSymbols:
    """The writing half of a symbol code: writes nothing and keeps the symbols."""

    per_tensor: list[SymbolsSent] = field(default_factory=list)

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Keeps ``codes``."""
        if codes.numel():
            self.per_tensor.append(SymbolsSent(codes.cpu().clone(), alphabet))


def has_pipeline(compressor: Compressor) -> bool:
    """Whether there is a pipeline inside, from which ``patterns`` takes what its coders code."""
    return _with(compressor, _KeptPositions(), _KeptSymbols()) is not compressor


def patterns(
    compressor: Compressor, updates: Sequence[Tensors], seed: int
) -> tuple[list[Positions], list[SymbolsSent]]:
    """What the pipelines inside ``compressor`` hand to their coders, of first messages.

    Raises ``UsageError`` for an update that the method cannot carry.
    """
    positions, symbols = _KeptPositions(), _KeptSymbols()
    tapped = _with(compressor, positions, symbols)
    for update in updates:
        try:
            tapped.write(update, tapped.init(update), BitWriter(), seed)
        except UpdateError as error:
            raise UsageError(str(error)) from error
    return positions.per_tensor, symbols.per_tensor


def _with(compressor: Compressor, positions: Any, symbols: Any) -> Compressor:
    """A copy of ``compressor`` whose pipelines have these coders; the copy can only write."""

    def tapped(pipeline: Pipeline) -> Pipeline:
        changed = replace(pipeline, symbols=symbols)
        return replace(changed, positions=positions) if pipeline.writes_positions else changed

    with_taps: Compressor = with_pipelines(compressor, tapped)
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
