"""Why replies failed, in a few words: what a round, a client and a run say of it."""

import re
from collections import Counter
from collections.abc import Iterable
from statistics import median

from strategies import RoundTraffic

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
_SHOWN, _LENGTH = 3, 120

FAR = 1000
"""How many times as long as the others' median an update is that is told beside a failed round."""


def reasons(failures: Iterable[str]) -> str:
    """Reasons with their counts, most frequent first, on one line; empty where none is given.

    Reasons that differ in numbers alone (a round's, a loss) count as one, whose numbers are shown
    as `…`. Of more than three, the rest is counted together.

    Args:
        failures: the reason of each failure, in any order; of several lines the blanks are joined.

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
    if rest := sum(count for _, count in ordered[_SHOWN:]):
        shown.append(f"other reasons x {rest}")
    return "; ".join(shown)


def longest(traffic: RoundTraffic, far: float = 0.0) -> str:
    """Which client's update was the largest of a round, to be added to an error.

    Empty where none came, and where it is not above ``far`` times the median of the others' norms.
    """
    norms = sorted(((up.norm, traffic.client_of(key)) for key, up in traffic.uplinks.items()))
    if not norms:
        return ""
    (most, client), others = norms[-1], [norm for norm, _ in norms[:-1]]
    if far and not (others and most > far * median(others)):
        return ""
    beside = f" (the others' at most {others[-1]:.3g})" if others else ""
    return (
        f"; the largest update of round {traffic.round} is client {client}'s, of norm {most:.3g}"
        f"{beside}; --max-norm refuses updates above a norm"
    )
