"""Sparse Binary Compression in theory: Table I of Sattler et al. 2018."""

from dataclasses import dataclass

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
