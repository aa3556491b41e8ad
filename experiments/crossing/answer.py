"""The page's sentences with numbers, from the CSV files: they change when runs are merged."""

from pathlib import Path

import pandas as pd
from scipy.stats import t, ttest_1samp

from experiments.common.inference import holm
from experiments.common.prose import bullets, quoted, wrap
from experiments.common.tables import table

from . import law as laws
from .rows import MASK, SETTINGS, TOPK

LEVEL = 0.05
AGAIN = "again.csv"
"""Places of runs without momentum masking: ``arm``, ``setting``, ``iterations``, and seconds of the
processor and of the clock. While the file is not there, ``MASKED`` are masked."""

MASKED = ("stc", "topk4")
UNMASKED = "sbc_unmasked"


def answers(results: Path, finals: pd.DataFrame) -> dict[str, str]:
    """The page's texts by name.

    Args:
        results: the folder with ``differences.csv``, ``law.csv`` and perhaps ``AGAIN``.
        finals: of all settings.
    """
    told = pd.read_csv(results / "differences.csv")
    law = pd.read_csv(results / "law.csv").set_index("of")
    tests = by_place(told)
    again = pd.read_csv(results / AGAIN) if (results / AGAIN).exists() else None
    texts = {
        "headline": headline(told, law, tests, again is not None),
        "outcome": outcome(told, law, tests, finals),
        "settings": settings(tests),
        "note": note(told) if again is None else cost(again),
        "sbc": "`sbc_unmasked` has not run yet.",
    }
    if UNMASKED in set(finals["method"]):
        texts["sbc"] = unmasked(finals)
    return texts


def by_place(told: pd.DataFrame) -> pd.DataFrame:
    """A line per place: the mean ``gain`` over seeds, its p-value against zero, and Holm's."""
    grouped = told.groupby(laws.PLACE, sort=False)["gain"]
    frame = pd.DataFrame(
        {
            "gain": grouped.mean(),
            "chance": grouped.apply(lambda gain: ttest_1samp(gain, 0).pvalue),
        }
    )
    # Equal runs have no spread: such a difference of zero is not told from zero.
    frame["chance"] = frame["chance"].fillna(1.0)
    return frame.assign(holm=holm(frame["chance"].to_numpy())).reset_index()


def without_masking(finals: pd.DataFrame) -> pd.DataFrame:
    """A line per place and seed: the log-odds of an error of SBC less those without its masking."""
    pair = finals[finals["method"].isin(["sbc", UNMASKED])].reset_index(drop=True)
    wrong = laws.errors(pair)
    odds = pair.assign(logit=laws.log_odds(wrong))
    by = odds.pivot(index=[*laws.PLACE, "seed"], columns="method", values="logit").dropna()
    return (by["sbc"] - by[UNMASKED]).rename("gain").reset_index()


def counts(tests: pd.DataFrame, column: str = "holm") -> tuple[int, int]:
    """At how many places the first and the second of two is better."""
    differs = tests[column] < LEVEL
    return int((differs & (tests["gain"] > 0)).sum()), int((differs & (tests["gain"] < 0)).sum())


def headline(told: pd.DataFrame, law: pd.DataFrame, tests: pd.DataFrame, unmasked: bool) -> str:
    """The first sentence, and its unit of repetition."""
    count = len(tests)
    unit = "The unit of repetition is the place: a task with its partition, a length and a budget."
    if not unmasked:
        masked = masked_places(told)
        claim = (
            "Whether a mask or top-k is better cannot be told from these runs, because top-k was "
            f"masked at {masked} of the {count} places."
        )
        return wrap(f"**{claim}** {unit}")
    row = law.loc["all"]
    mask, topk = counts(tests)
    borne = row["slope"] < 0 and row["chance"] < LEVEL
    claim = (
        f"The mask's lead over top-k {'falls' if borne else 'is not shown to fall'} with the "
        "number of times that an entry is sent: its slope per tenfold R p is "
        f"{row['slope']:.2f} (95 % interval {ends(row)}), and the mask is better at {mask} of "
        f"{count} places, top-k at {topk} (Holm's correction)."
    )
    return wrap(f"**{claim}** {unit}")


def outcome(
    told: pd.DataFrame, law: pd.DataFrame, tests: pd.DataFrame, finals: pd.DataFrame
) -> str:
    """What the tests found, a bullet each."""
    row, count = law.loc["all"], len(tests)
    borne = row["slope"] < 0 and row["chance"] < LEVEL
    excluded = row["slope"] + 1.96 * row["error"] >= 0 and row["slope"] - 1.96 * row["error"] < 0
    mask, topk = counts(tests)
    before = counts(tests, "chance")
    return bullets(
        f"**The hypothesis is {'' if borne else 'not '}borne out.** The slope is "
        f"{row['slope']:.2f} per tenfold R p (95 % interval {ends(row)}; p = {row['chance']:.2g}), "
        "where the hypothesis has it below zero."
        + (" A slope of its sign is not excluded." if excluded and not borne else ""),
        f"**Place by place**, paired over ten seeds: the mask's mean gain is above zero at "
        f"{(tests['gain'] > 0).sum()} of {count} places. After Holm's correction the mask is "
        f"better at {mask} and top-k at {topk}; before it, at {before[0]} and {before[1]}.",
        f"**Equal bits.** {another(law, 'equal bits')} These are the places where the mask sent "
        "0.8 to 1.25 of top-k's bits.",
        f"**Smaller budgets.** {another(law, 'smaller budgets')} Here a method may have its runs "
        "of a smaller budget, if validation prefers them. Places of two budgets then share runs, "
        "which the test takes as independent.",
        used(finals),
    )


def another(law: pd.DataFrame, name: str) -> str:
    """The test in another way, in a sentence."""
    row = law.loc[name]
    return (
        f"{row['places']:.0f} places have a slope of {row['slope']:.2f} "
        f"(95 % interval {ends(row)}; p = {row['chance']:.2g})."
    )


def ends(row: pd.Series) -> str:
    """The 95 % interval of a slope, by its standard error."""
    low, high = (row["slope"] + z * row["error"] for z in (-1.96, 1.96))
    return f"{low:.2f} to {high:.2f}"


def used(finals: pd.DataFrame) -> str:
    """How much of a hundredth of dense methods use."""
    at = ["setting", "iterations"]
    dense = finals[finals["budget"].isna()].groupby(at)[["bits", "rounds"]].mean()
    message = (dense["bits"] / dense["rounds"]).rename("message")
    few = finals[finals["budget"] == 0.01].join(message, on=at)
    share = few["bits"] / (0.01 * few["message"] * few["iterations"])
    mean = 100 * share.groupby([few["kind"], few["method"], *(few[name] for name in at)]).mean()
    masks, tops = (f"{mean[k].min():.0f} to {mean[k].max():.0f} %" for k in (MASK, TOPK))
    return (
        "**Bits.** Fractions end at a half, so that at a hundredth bits are not equal: top-k "
        f"methods use {tops} of the budget there, masks {masks}."
    )


def settings(tests: pd.DataFrame, first: str = "mask", second: str = "top-k") -> str:
    """A row per setting: places, the mean gain, and at how many places which of two is better."""
    lines = []
    for name in (name for name in SETTINGS if name in set(tests["setting"])):
        part = tests[tests["setting"] == name]
        one, other = counts(part)
        above, gain = (part["gain"] > 0).sum(), part["gain"].mean()
        lines.append([name, f"{len(part)}", f"{gain:+.2f}", f"{above}", f"{one}", f"{other}"])
    head = (
        "setting",
        "places",
        "mean gain (log-odds)",
        "above zero",
        f"{first} better (Holm)",
        f"{second} better (Holm)",
    )
    return table(head, lines)


def unmasked(finals: pd.DataFrame) -> str:
    """SBC without its paper's masking against SBC: what the tests find, and a row per setting."""
    tests = by_place(without_masking(finals))
    without, masked = counts(tests)
    before = counts(tests, "chance")
    low, high = t.interval(0.95, len(tests) - 1, tests["gain"].mean(), tests["gain"].sem())
    claim = (
        f"**Without its paper's masking SBC is better at {without} of {len(tests)} places, with it "
        f"at {masked} (Holm's correction; before it, at {before[0]} and {before[1]}).** The mean "
        f"gain of SBC without masking is {tests['gain'].mean():+.2f} (log-odds; 95 % interval over "
        f"places {low:+.2f} to {high:+.2f}, which was not planned)."
    )
    if left := not_run(finals):
        claim += (
            f" SBC without masking has not run at {len(left)} of the plan's places: "
            f"{', '.join(sorted({f'{x} at {n}' for x, n, _ in left}))} iterations."
        )
    claim += " A gain above zero is for SBC without masking:"
    return f"{wrap(claim)}\n\n{settings(tests, 'unmasked', 'masked')}"


def not_run(finals: pd.DataFrame) -> set[tuple[str, int, float]]:
    """Setting, length and budget of the places that ``sbc`` has and ``UNMASKED`` has not."""
    have = [
        {*finals.loc[finals["method"] == name, laws.PLACE].itertuples(index=False, name=None)}
        for name in ("sbc", UNMASKED)
    ]
    return have[0] - have[1]


def masked_places(told: pd.DataFrame) -> int:
    """At how many places the top-k method is one that was masked."""
    return int(told.groupby(laws.PLACE)["topk"].first().isin(MASKED).sum())


def note(told: pd.DataFrame) -> str:
    """How the runs with masking are to be read."""
    count = told.groupby(laws.PLACE).ngroups
    return quoted(
        "**To be run again: `stc` and `topk4` were measured with momentum masking, which their "
        "papers do not have.** These runs have `--momentum-masking auto`. It masked every method "
        "with error feedback when they were made. Now it masks for `sbc` alone, because among "
        "these methods only SBC's paper masks. Masks, EF21, DRIVE and dense messages were never "
        f"masked. At {masked_places(told)} of the {count} places the top-k method is `stc` or "
        "`topk4`: there a masked method was compared with an unmasked one.",
        "By the evening of 29 November they had run again at five of the twelve settings and "
        "lengths, all of digits. About three core hours are left. Until both have run at all "
        "places, which the plan asks for before the test is taken, the page contains nothing about "
        "top-k without masking. What it has of the hypothesis and of places where the mask is "
        "better holds for these runs only. In a check, which is not in the tables, `topk4` without "
        "masking ended at 39.2 % (iid) and 39.3 % (by role) with characters at 500 iterations and "
        "1/100, above the mask; on MNIST with skewed labels masking cost top-k 2.3 points.",
    )


def cost(again: pd.DataFrame) -> str:
    """How the runs without masking were made, and their hours."""
    hours = again.groupby("arm")["core_seconds"].sum() / 3600
    spent = " and ".join(f"{value:.1f} for `{arm}`" for arm, value in hours.items())
    return quoted(
        "**`stc` and `topk4` ran again without momentum masking, which their papers do not have.** "
        "Earlier versions of this page had them masked, and put a masked method against an "
        f"unmasked one. Core hours: {spent} (planned: 3.5 for `topk`, 1.7 for `sbc`). SBC's paper "
        "masks, and so does `sbc` here."
    )
