"""Reasons of failed replies in a few words, for the records of a round, a client and a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from compressors import ErrorFeedback
from compressors.base import Compressor
from compressors.bounds import bound
from compressors.grammar import short_text
from compressors.whole.keepers import parts_of
from fedsim.ground.records import DROPPED
from strategies.channel.replies import AT_WORK
from strategies.channel.server_end import OVERDUE

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

LATE = "its update came when the round was over"

EXPECTED = frozenset({*DROPPED.values(), LATE, OVERDUE, AT_WORK})
"""Reasons that the settings of a run make: nothing is wrong with the client."""

IN_A_ROW = 3
"""So many failures in a row are reported: a repeated failure has a cause that can be fixed."""

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
_SHOWN, _LENGTH, _NAMED = 3, 120, 5


def reasons(failures: Iterable[str]) -> str:
    """Reasons with their counts, most frequent first, on one line; empty where none is given.

    Reasons that differ in numbers alone (a round's, a loss) count as one, whose numbers are shown
    as `…`. Of more than three, the rest is counted together.

    Example:
        >>> reasons(["no room", "loss nan (round 2)", "no room", "loss nan (round 3)", "no room"])
        'no room x 3; loss nan (round …) x 2'
    """
    texts: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for reason in failures:
        line = " ".join(reason.split())
        key = _NUMBER.sub("…", line)
        texts.setdefault(key, set()).add(line)
        counts[key] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = []
    for key, count in ordered[:_SHOWN]:
        text = key if len(texts[key]) > 1 else next(iter(texts[key]))
        text = text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"
        shown.append(f"{text} x {count}")
    if remaining := sum(count for _, count in ordered[_SHOWN:]):
        shown.append(f"other reasons x {remaining}")
    return "; ".join(shown)


def failed_clients(clients: pd.DataFrame) -> str:
    """The clients of which replies were not used for a reason that the settings do not make.

    With how often, where several times, and with the rounds where at least three followed each
    other. Five are named; empty where there is none. ``clients`` has the rows of
    ``clients.parquet`` in their order.

    Example:
        >>> import pandas as pd
        >>> rows = [(1, 0, ""), (1, 7, "no room"), (2, 7, "no room"), (3, 7, "no room")]
        >>> frame = pd.DataFrame(rows, columns=["round", "client", "failure_reasons"])
        >>> failed_clients(frame.assign(failures=[0, 1, 1, 1]))
        'client 7 (3 times, rounds 1 to 3 one after the other)'
    """
    wrong = (clients["failures"] > 0) & ~clients["failure_reasons"].isin(EXPECTED)
    named = []
    for client in sorted(clients.loc[wrong, "client"].unique()):
        rows = clients[clients["client"] == client]
        rows = rows[~rows["failure_reasons"].isin(EXPECTED)]
        failed = (rows["failures"] > 0).to_numpy()
        about = [f"{failed.sum()} times"] if failed.sum() > 1 else []
        starts = (failed != np.roll(failed, 1)).cumsum()  # a number for each stretch of the same
        stretches = rows[failed].groupby(starts[failed])["round"].agg(["size", "first", "last"])
        row = stretches.sort_values("size", kind="stable").tail(1)
        if row["size"].item() >= IN_A_ROW:
            first, last = row["first"].item(), row["last"].item()
            about.append(f"rounds {first} to {last} one after the other")
        named.append(f"client {client}" + (f" ({', '.join(about)})" if about else ""))
    more = [f"and {len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return ", ".join(named[:_NAMED] + more)


def suspect(method: Compressor) -> str | None:
    """A remark on a diverged run if the method's memory may be the reason; else None.

    A memory is bounded if theory has a rule for the method inside it: ``check_growth`` has then
    accepted it. A part of the user's own has no rule.
    """
    for part in parts_of(method):
        if isinstance(part, ErrorFeedback) and bound(part.inner, 64).kind == "unknown":
            return (
                f"the method's memory may have grown without end, for nothing is known of the "
                f"errors of {short_text(part.inner)} (try the method without ef)"
            )
    return None
