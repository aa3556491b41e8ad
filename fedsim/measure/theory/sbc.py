"""Sparse Binary Compression in theory: Table I and the compression rates of Sattler et al. 2018."""

from dataclasses import dataclass

from compressors.settings import check_share
from fedsim.measure.theory.positions import ideal_position_bits


@dataclass(frozen=True)
class Components:
    """What one local iteration of a client costs, as Table I takes it apart.

    ``temporal`` and ``gradient`` are fractions: rounds per iteration, and entries sent per round.
    """

    temporal: float
    gradient: float
    value_bits: float
    position_bits: float

    @property
    def compression(self) -> float:
        """32 bits per entry and iteration over what is sent.

        Example:
            >>> round(Components(1, 0.001, 32, 16).compression, 2)
            666.67
        """
        sent = self.value_bits + self.position_bits
        return 32 / (self.temporal * self.gradient * sent)


@dataclass(frozen=True)
class TableRow:
    """One method of Table I: its cheapest and its dearest setting, and what the paper prints."""

    method: str
    least: Components
    largest: Components
    printed: str
    note: str


def ideal_compression(n: int, p: float) -> float:
    """SBC's compression with ``n`` local iterations per round and a fraction ``p`` sent.

    32 n / (p times the bits of equation 5): positions are all that asymptotically counts.

    Example:
        >>> [round(ideal_compression(n, p)) for n, p in ((1, 0.001), (10, 0.01), (100, 0.01))]
        [2784, 3947, 39468]
    """
    check_share("p", p)
    if n < 1:
        raise ValueError(f"n is {n}: a round has at least 1 local iteration")
    return 32 * n / (p * ideal_position_bits(p)) if p < 1 else float("inf")


def implied_position_bits(n: int, p: float, compression: float) -> float:
    """Bits per position that a compression rate leaves, if positions are all that is sent.

    Example:
        >>> round(implied_position_bits(1, 0.001, 2569), 2)  # ResNet50, Table II
        12.46
    """
    check_share("p", p)
    return 32 * n / (p * compression)


def total_terabytes(parameters: float, iterations: float) -> float:
    """Upstream of one client that sends float32 every iteration.

    The abstract's 125 terabytes for ResNet50 (25.56 million parameters, 700,000
    iterations) do not follow from it.

    Example:
        >>> round(total_terabytes(25.56e6, 700_000), 1)
        71.6
    """
    return 4 * parameters * iterations / 1e12


def table_i() -> list[TableRow]:
    """Table I: what each method makes smaller, and the compression that follows."""
    dense = Components(1, 1, 32, 0)
    dropped = Components(1, 0.001, 32, 16)
    coded = Components(1, 0.001, 32, ideal_position_bits(0.001))

    def at(temporal: float, gradient: float) -> Components:
        return Components(temporal, gradient, 0, ideal_position_bits(gradient))

    one, two, three = at(1, 0.001), at(0.1, 0.01), at(0.01, 0.01)
    return [
        TableRow("baseline", dense, dense, "1", ""),
        TableRow("dense quantization (signSGD, TernGrad, QSGD)", Components(1, 1, 1, 0),
            Components(1, 1, 8, 0), "4-32", ""),
        TableRow("gradient dropping, DGC", dropped, dropped, "666", "fixed width"),
        TableRow("the same with Golomb", coded, coded, "", "not in the table"),
        TableRow("Federated Averaging", Components(0.001, 1, 32, 0), Components(0.1, 1, 32, 0),
            "10-1000", ""),
        TableRow("SBC, all ranges", at(0.001, 0.001), at(0.1, 0.1), "40000", "0.1 % to 10 %"),
        TableRow("SBC (1)", one, one, "1530-2572", "Table II"),
        TableRow("SBC (2)", two, two, "3430-3958", "Table II"),
        TableRow("SBC (3)", three, three, "24935-37208", "Table II"),
    ]  # fmt: skip
