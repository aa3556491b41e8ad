"""The columns of tables of runs: those without information of their own are not shown."""

from collections.abc import Collection

import pandas as pd

from fedsim.ground import units
from fedsim.results.labels import delay_symbol

PER_CLIENT = "up_wire_bits_per_client"
_TENTH, _MOST = 0.1, 0.9
_TERMS = {
    "temporal": "; p: fraction of entries sent",
    "total_sparsity": "; p/n: total sparsity",
    "bits": ".\nBits are of payloads of one client that takes part in every round, over the whole "
    "run; 1 kbit = 1000 bit",
    "up_content_bits": "; content, which papers count: positions, values and side information",
    "ratio_wire": ". Ratio up: 32-bit dense sending of every trained entry and iteration over "
    "upstream bits",
    "ratio_both": "; both: the same up and down over bits up and down",
}  # of the columns of a table, in this order
_NOTES = {
    "up_share": " Sent: the share of the entries that travelled, where it is not nearly p.",
    PER_CLIENT: " Per client: of the whole federation over the number of its clients.",
    "failures": " Failures: replies of all clients that were asked for and not used.",
}


def sends_other_shares(runs: pd.DataFrame) -> pd.Series:
    """The rows whose share of entries that travelled differs from p by more than a tenth of p.

    p is nominal: a tensor sends at least one entry, and a zero is never sent.

    Example:
        >>> runs = pd.DataFrame({"gradient": [0.01, 0.0001], "up_share": [0.0101, 0.0003]})
        >>> sends_other_shares(runs).tolist()
        [False, True]
    """
    if "up_share" not in runs.columns:
        return pd.Series(False, index=runs.index)
    share = runs["up_share"].astype(float)
    return ((share - runs["gradient"]).abs() > _TENTH * runs["gradient"]).fillna(False)


def sends_less_per_client(runs: pd.DataFrame) -> pd.Series:
    """The rows in which a client of the federation sent other bits than a client of every round.

    So it is with a cohort smaller than the federation, and where replies failed.
    """
    if not {PER_CLIENT, "up_wire_bits"} <= {*runs.columns}:
        return pd.Series(False, index=runs.index)
    sent, usual = runs[PER_CLIENT].astype(float), runs["up_wire_bits"].astype(float)
    return ((sent - usual).abs() > 1e-9 * usual).fillna(False)


def has_failures(runs: pd.DataFrame) -> pd.Series:
    """The rows in which replies were asked for and not used."""
    if "failures" not in runs.columns:
        return pd.Series(False, index=runs.index)
    return runs["failures"].astype(float).fillna(0.0) > 0


def worth_a_column(runs: pd.DataFrame) -> dict[str, bool]:
    """Whether each column that is not always shown has information on these runs."""
    failures = bool(has_failures(runs).any())
    return {
        "up_share": bool(sends_other_shares(runs).any()),
        PER_CLIENT: bool(sends_less_per_client(runs).any()),
        "failures": failures,
        "failed_up_bits": failures,
    }


def failures_told(runs: pd.DataFrame) -> list[str]:
    """A line per run with failures: its name, how many replies were not used, why, their bits."""
    lines = []
    for name, run in runs[has_failures(runs)].iterrows():
        reasons = f" ({run['failure_reasons']})" if isinstance(run["failure_reasons"], str) else ""
        sent = units.bits(run["failed_up_bits"])
        bits = f"; such uploads: {sent}" if run["failed_up_bits"] > 0 else ""
        whose = f"; {x}" if isinstance(x := run.get("failed_clients"), str) else ""
        lines.append(f"{name}: replies not used {int(run['failures'])}{reasons}{bits}{whose}")
    return lines


def framing_told(runs: pd.DataFrame) -> str:
    """The sentence that compares uploads with Flower's framing to their payloads; "" if unknown.

    Example:
        >>> bits = {"up_wire_bits": [236e3, 821e6], "up_message_bits": [1447e3, 833e6]}
        >>> framing_told(pd.DataFrame(bits | {"ratio_wire": [3477.0, 1.0]}))
        " With Flower's framing (up_message_bits) uploads are ×1.01 to ×6.13 as long: ratios up \
are ×0.99 to ×567."
    """
    if not {"up_message_bits", "up_wire_bits", "ratio_wire"} <= {*runs.columns}:
        return ""
    sent = runs[(runs["up_message_bits"] > 0) & (runs["up_wire_bits"] > 0)]
    if sent.empty:
        return ""
    longer = sent["up_message_bits"] / sent["up_wire_bits"]
    lengths, ratios = _range(longer), _range(sent["ratio_wire"] / longer)
    return (
        f" With Flower's framing (up_message_bits) uploads are {lengths} as long: ratios up "
        f"are {ratios}."
    )


def _range(values: pd.Series) -> str:
    """The least ratio and the largest; one where they read the same."""
    return " to ".join(dict.fromkeys(units.ratio(x) for x in (values.min(), values.max())))


def downlink_told(runs: pd.DataFrame) -> str:
    """A remark on a raw downlink that takes most of compressed runs' bits; else empty.

    Example:
        >>> down = {"downlink": ["raw"], "dense": [False], "down_wire_bits": [81.4e6]}
        >>> downlink_told(pd.DataFrame(down | {"up_wire_bits": [0.2e6]}))
        ' The raw downlink is up to 99.8 % of the bits: --downlink METHOD compresses it.'
        >>> downlink_told(pd.DataFrame(down | {"up_wire_bits": [81.4e6]}))
        ''
    """
    if not {"downlink", "dense", "down_wire_bits", "up_wire_bits"} <= {*runs.columns}:
        return ""
    raw = runs[(runs["downlink"] == "raw") & ~runs["dense"].astype(bool)]
    share = (raw["down_wire_bits"] / (raw["down_wire_bits"] + raw["up_wire_bits"])).max()
    if not share > _MOST:
        return ""
    return (
        f" The raw downlink is up to {100 * share:.3g} % of the bits: --downlink METHOD "
        "compresses it."
    )


def delay_told(runs: pd.DataFrame) -> str:
    """The symbol of the cells' delay and its meaning.

    Example:
        >>> delay_told(pd.DataFrame({"temporal": [5]}))
        'n: local iterations per round'
    """
    what = {
        "n": "local iterations per round",
        "E": "local epochs per round",
        "T": "simulated --local-seconds per round, once",
    }
    symbol = delay_symbol(runs)
    return f"{symbol}: {what[symbol]}"


def table_caption(runs: pd.DataFrame, columns: Collection[str]) -> str:
    """The caption of a table: what its columns mean, including those that few tables have."""
    named = {*columns, *("bits" for name in columns if "_bits" in name)}
    named |= {"ratio_wire"} if "ratio_both" in named else set()
    terms = delay_told(runs) if "temporal" in named else ""
    terms += "".join(text for name, text in _TERMS.items() if name in named)
    notes = "".join(note for name, note in _NOTES.items() if name in columns)
    notes += framing_told(runs) if "bits" in named else ""
    notes += downlink_told(runs)
    text = f"{terms}." if terms else ""
    return f"{text}{notes}".lstrip(". \n")
