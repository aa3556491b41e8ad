"""Recommendations from a table of methods on a user's update, and the search to run next."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

import numpy as np
import pandas as pd

from compressors.whole.keepers import needs_server
from fedsim.ground import units
from fedsim.ground.errors import UsageError
from fedsim.settings.methods import resolve

FACTORS = (1, 10, 100, 1000)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.])")


@dataclass(frozen=True)
class Advice:
    """The best of a table at one compression.

    Attributes:
        factor: the least compression ratio.
        near, error: the method with the smallest relative error there, and that error.
        fast, seconds: the fastest method there that loses less than it keeps, and its time to
            compress and decompress.
    """

    factor: int
    near: str
    error: float
    fast: str
    seconds: float


def recommend(frame: pd.DataFrame) -> list[Advice]:
    """The best methods at compressions of 1, 10, 100 and 1000 or more, where there are any.

    A method whose error is 1 or more sends nothing that is nearer to the update than zeros: it is
    not recommended, though with error feedback it may train. Nor is a method whose messages need a
    server of their own (``marina``): a first message predicts little of those that follow.

    Example:
        >>> names = ["method", "ratio", "relative_error", "compress_ms", "decompress_ms", "error"]
        >>> rows = [("raw", 1.0, 0.0, 1.0, 1.0, ""), ("sbc(0.01)", 386.0, 0.98, 4.0, 1.0, "")]
        >>> [a.near for a in recommend(pd.DataFrame(rows, columns=names))]
        ['raw', 'sbc(0.01)', 'sbc(0.01)']
    """
    usable = frame[(frame["error"] == "") & (frame["relative_error"] < 1)]
    serverless = [not needs_server(resolve(m.strip(), None).compressor) for m in usable["method"]]
    usable = usable[np.array(serverless, bool)]
    usable = usable.assign(seconds=(usable["compress_ms"] + usable["decompress_ms"]) / 1000)
    advice = []
    for factor in FACTORS:
        reaching = usable[usable["ratio"] >= factor * (1 - 1e-3)]  # raw's header is not counted
        if len(reaching):
            near = reaching.sort_values(["relative_error", "seconds"]).iloc[0]
            fast = reaching.sort_values("seconds").iloc[0]
            error, seconds = float(near["relative_error"]), float(fast["seconds"])
            advice.append(Advice(factor, near["method"], error, fast["method"], seconds))
    return advice


def advice_text(advice: Sequence[Advice]) -> str:
    """The recommendation as a paragraph."""
    parts = [
        f"{best.factor} times: {best.near} (error {best.error:.4f}); the fastest is "
        f"{best.fast} ({units.duration(best.seconds)})"
        for best in advice
    ]
    missing = [str(factor) for factor in FACTORS if factor not in [a.factor for a in advice]]
    none = f" None that was tried compresses {' or '.join(missing)} times." if missing else ""
    return (
        f"For this file, by relative error and by time, at a compression of at least "
        f"{'. At least '.join(parts)}.{none} Whether such an error matters shows in training, "
        "where what one message leaves out may travel later:"
    )


def search_command(advice: Sequence[Advice]) -> str:
    """The command that trains with the recommended methods, as a shell takes it."""
    methods = dict.fromkeys(_form(name) for a in advice for name in (a.near, a.fast))
    return f"fedsim search --task TASK --methods {quote('; '.join(methods))}"


def _form(method: str) -> str:
    """A method with ``{p}`` where it has its fraction, which a search chooses.

    That is where another number makes it send another fraction: an equal number elsewhere is a
    setting of its own.
    """
    method = method.strip()
    fraction = resolve(method, None).gradient
    for number in _NUMBER.finditer(method if fraction != 1 else ""):
        before, after = method[: number.start()], method[number.end() :]
        try:
            half = resolve(f"{before}{fraction / 2!r}{after}", None).gradient == fraction / 2
        except UsageError:
            continue
        if half and float(number.group()) == fraction:
            return f"{before}{{p}}{after}"
    return method
