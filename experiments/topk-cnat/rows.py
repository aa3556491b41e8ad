"""The methods of Tables 2 and 3 of Horváth et al. 2022, and what the paper prints of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A method of the tables; ``volume`` and ``accuracy`` in per cent, as the paper prints them."""

    name: str
    title: str
    method: str
    volume: float
    accuracy: float
    spread: float


Printed = tuple[float, float, float]
"""Volume, accuracy and its spread, in per cent, as the paper prints them."""


def _topk(k: float, plain: Printed, nat: Printed) -> list[Row]:
    """Top-k of k per cent, without and with natural compression of what is sent."""
    text = f"ef(per_tensor(topk({k / 100:g}) | {{}} | golomb))"
    return [
        Row(f"topk-{k:g}", f"top-k {k:g} %", text.format("float32"), *plain),
        Row(f"topk-cnat-{k:g}", f"top-k {k:g} %, C_nat", text.format("cnat"), *nat),
    ]


TABLE2 = (
    *_topk(0.39, (0.78, 93.72, 0.07), (0.48, 93.93, 0.26)),
    *_topk(1.56, (3.12, 94.21, 0.06), (1.95, 94.47, 0.13)),
    *_topk(6.25, (12.5, 93.93, 0.53), (7.81, 94.13, 0.26)),
)
TABLE3 = (
    Row("sgd", "no compression", "raw", 100, 93.69, 0.32),
    Row("sign", "SignSGD", "sign(0.001)", 3.12, 93.47, 0.29),
    Row("ef-sign", "EF-SignSGD", "ef_sign", 3.12, 93.81, 0.06),
    _topk(2.5, (0, 0, 0), (3.12, 94.28, 0.12))[1],
    Row("powersgd-2", "PowerSGD rank 2", "powersgd(2)", 0.74, 94.26, 0.22),
    _topk(0.6, (0, 0, 0), (0.74, 94.23, 0.01))[1],
    Row("powersgd-7", "PowerSGD rank 7", "powersgd(7)", 2.36, 94.24, 0.09),
    _topk(1.9, (0, 0, 0), (2.36, 94.25, 0.10))[1],
)
ROWS = {row.name: row for row in TABLE2 + TABLE3}

FITTED = {("char_lstm", "sign"): "sign(0.01)"}
"""Methods of a task whose steps are not those of the other tasks: by task and row.

SignSGD's 0.001 per entry suits the others, whose rates are 0.001 and 0.02; `char_lstm` has 1.0,
and of 0.0003, 0.001, 0.003, 0.01 and 0.03 it ends best at 0.01.
"""
