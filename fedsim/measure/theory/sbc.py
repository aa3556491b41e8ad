"""Sparse Binary Compression in theory: Table I of Sattler et al. 2018."""

from typing import Any

from fedsim.measure.theory.positions import ideal_position_bits

_COMPONENTS = ("temporal", "gradient", "value_bits", "position_bits")


def compression(temporal: float, gradient: float, value_bits: float, position_bits: float) -> float:
    """32 bits per entry and local iteration over what is sent.

    ``temporal`` and ``gradient`` are fractions: rounds per iteration, and entries sent per round.

    Example:
        >>> round(compression(1, 0.001, 32, 16), 2)
        666.67
    """
    return 32 / (temporal * gradient * (value_bits + position_bits))


def table_i() -> list[dict[str, Any]]:
    """Table I: what each method makes smaller, and the compression that follows.

    A component is a list of its two ends, of one number where they agree.
    """
    dense, dropped = (1, 1, 32, 0), (1, 0.001, 32, 16)
    coded = (1, 0.001, 32, ideal_position_bits(0.001))

    def at(temporal: float, gradient: float) -> tuple[float, float, float, float]:
        return temporal, gradient, 0, ideal_position_bits(gradient)

    one, two, three = at(1, 0.001), at(0.1, 0.01), at(0.01, 0.01)
    methods = [
        ("baseline", dense, dense, "1", ""),
        ("dense quantization (signSGD, TernGrad, QSGD)", (1, 1, 1, 0), (1, 1, 8, 0), "4-32", ""),
        ("gradient dropping, DGC", dropped, dropped, "666", "fixed width"),
        ("the same with Golomb", coded, coded, "", "not in the table"),
        ("Federated Averaging", (0.001, 1, 32, 0), (0.1, 1, 32, 0), "10-1000", ""),
        ("SBC, all ranges", at(0.001, 0.001), at(0.1, 0.1), "40000", "0.1 % to 10 %"),
        ("SBC (1)", one, one, "1530-2572", "Table II"),
        ("SBC (2)", two, two, "3430-3958", "Table II"),
        ("SBC (3)", three, three, "24935-37208", "Table II"),
    ]
    return [
        {
            "method": method,
            **{
                name: sorted({*ends})
                for name, *ends in zip(_COMPONENTS, least, largest, strict=True)
            },
            "compression": sorted({compression(*least), compression(*largest)}),
            "printed": printed,
            "note": note,
        }
        for method, least, largest, printed, note in methods
    ]
