"""The tables of ``fedsim theory``: rows of plain values, ours and the printed ones."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from compressors.catalogue import ROWS

TableDict = dict[str, Any]


@dataclass(frozen=True)
class TheoryTable:
    """A table: what it is, where from, how its rows follow from a number of entries d.

    ``entries`` is the default d; None where the table has none.
    """

    title: str
    source: str
    rows: Callable[[int], list[TableDict]]
    entries: int | None = None
    notes: tuple[str, ...] = field(default=())


def _table1(d: int) -> list[TableDict]:
    from fedsim.measure.theory import speedups  # with the rows: a list of tables needs no torch

    return [*map(asdict, speedups.table1(d))]


def _table_i(_: int) -> list[TableDict]:
    from fedsim.measure.theory import sbc

    return sbc.table_i()


def _bounds(d: int) -> list[TableDict]:
    from compressors.parsing import parse
    from fedsim.measure.theory import bound, expected_bits

    rows = []
    for row in ROWS:
        method = parse(row.example)
        row_bound, bits = bound(method, d), expected_bits(method, d)
        rows.append(
            {
                "name": row.name,
                "method": row.example,
                "class": row_bound.kind,
                "omega": row_bound.omega,
                "delta": row_bound.delta,
                "expected_bits": None if bits is None else bits.total / d,
                "note": row_bound.note,
            }
        )
    return rows


_SHARES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 1e-4)


def _position_bits(_: int) -> list[TableDict]:
    from compressors.coders.golomb import golomb_parameter, rice_parameter
    from fedsim.measure.theory import positions

    rows = []
    for p in _SHARES:
        best = golomb_parameter(p)
        rows.append(
            {
                "p": p,
                "b": rice_parameter(p),
                "eq5": positions.ideal_position_bits(p),
                "entropy": positions.entropy_bits(p),
                "golomb_m": best,
                "golomb_bits": positions.golomb_bits(p, best),
                "printed": 8.38 if p == 0.01 else None,
            }
        )
    return rows


def _dithering(d: int) -> list[TableDict]:
    from compressors import bounds
    from fedsim.measure.theory import dithering

    def normal(levels: tuple[float, ...]) -> float | None:
        return dithering.gaussian_variance(d, levels) if d >= 100 else None

    rows = []
    for s in range(1, 11):
        natural = dithering.natural_levels(s)
        same, many = (dithering.standard_levels(u) for u in (s, 2 ** (s - 1)))
        rows.append(
            {
                "s": s,
                "natural_omega": bounds.natural_omega(d, s),
                "natural_equal": dithering.equal_entries_variance(d, natural),
                "natural_gaussian": normal(natural),
                "same_omega": bounds.standard_omega(d, s),
                "same_gaussian": normal(same),
                "many_omega": bounds.standard_omega(d, 2 ** (s - 1)),
                "many_gaussian": normal(many),
                "theorem8_gain": dithering.variance_gain(s),
                "natural_bits": (2 * s).bit_length(),
                "many_bits": (2**s).bit_length(),
            }
        )
    return rows


def _deepreduce(d: int) -> list[TableDict]:
    from fedsim.measure.theory import deepreduce, positions

    rows = []
    for epsilon in (0.0001, 0.001, 0.004, 0.01, 0.1):
        sent = d / 100
        rows.append(
            {
                "epsilon": epsilon,
                "filter_bits": deepreduce.filter_bits(1, epsilon),
                "hashes": deepreduce.filter_hashes(epsilon),
                "positives": deepreduce.expected_positives(sent, d, epsilon) / sent,
                "p0_bits": deepreduce.p0_bits_an_index(0.01, epsilon),
                "p0_delta": deepreduce.p0_delta(sent, d, epsilon),
                "p1_error": deepreduce.p1_expected_error(
                    sent, deepreduce.expected_positives(sent, d, epsilon)
                ),
                "golomb_bits": positions.ideal_position_bits(0.01),
            }
        )
    return rows


THEORY_TABLES: dict[str, TheoryTable] = {
    "table1": TheoryTable(
        "Speedup over uncompressed SGD (worker to master), theta = 1 to 0",
        "Horváth et al. 2022, Table 1", _table1, 10**6,
    ),
    "tableI": TheoryTable(
        "Compression rates, component by component", "Sattler et al. 2018, Table I", _table_i,
        notes=(
            "SBC (1), (2), (3): n = 1, 10, 100 and p = 0.001, 0.01, 0.01, positions by equation 5; "
            "printed is what Table II lists over five tasks.",
            "Those imply about one bit per position more; 3958 is above the maximum. Table I's "
            "40000 is SBC (3); its 8 to 14 position bits are not those of 10 % to 0.1 % (4.8 to "
            "11.5).",
            "The abstract's 125 terabytes for ResNet50 do not follow from 25.56 million float32 "
            "and 700,000 iterations: that is 71.6.",
        ),
    ),
    "bounds": TheoryTable(
        "What is known of each method", "the catalogue's examples", _bounds, 10**6,
        notes=("Expected bits: an entry's content for an ideal random source, no header; not what "
               "is counted. Positions by equation 5, for many entries: few of them take less.",),
    ),
    "position-bits": TheoryTable(
        "Bits per position for random positions", "Sattler et al. 2018, equation 5", _position_bits,
        notes=("The printed 8.38 is b = 7; b* is 6.",),
    ),
    "dithering": TheoryTable(
        "Natural against standard dithering, 2-norm: bounds and variances",
        "Horváth et al. 2022, Theorems 7 and 8", _dithering, 10**5,
        notes=("same: s even levels; many: 2^(s-1) even levels, as in Theorem 8. omega: bounds; "
               "equal: exact for equal entries; gaussian: of normal ones, for large d, and blank "
               "below 100.",
               "Bits: sign and level in one symbol of equal width."),
    ),
    "deepreduce": TheoryTable(
        "Bloom filters of r = d / 100 indices", "Kostopoulou et al. 2021, Lemmas 5 and 6",
        _deepreduce, 10**6,
        notes=("Bits per index. P0 sends 32 bits for every false positive; Golomb is lossless.",),
    ),
}  # fmt: skip
