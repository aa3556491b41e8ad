"""The plane's tables as Markdown; errors, their ranges and deviations times 100."""

import pandas as pd

from experiments.common.plane import stage_table
from experiments.common.tables import percent

FEW = 3
"""Rounds below which a cell has hardly exchanged anything."""

WITHIN = 0.03
"""The error above the dense cell's up to which a cell lies in the triangle of Fig. 3."""


def diagonal_table(shares: pd.DataFrame) -> str:
    """What diagonals explain of whole matrices."""
    names = ["least_error", "largest_error", "temporal_slope", "gradient_slope", "widest"]
    shown = percent(shares, names).assign(
        answer=shares["decides"].map({True: "yes", False: "no"}),
    )
    columns = {
        "cells": "{cells}",
        "errors": "{least_error:.1f} to {largest_error:.1f}",
        "variance across / along": "{ratio:.1f}",
        "explained by p/n": "{total:.2f}",
        "by n": "{temporal:.2f}",
        "by p": "{gradient:.2f}",
        "a step of n": "{temporal_slope:+.1f}",
        "of 1/p": "{gradient_slope:+.1f}",
        "widest diagonal": "{widest:.1f}",
        "p/n decides?": "{answer}",
    }
    return stage_table("Whole matrices", shown, columns)


def triangle_table(shares: pd.DataFrame) -> str:
    """How many cells have the dense cell's error, and how level diagonals are among them."""
    shown = percent(shares, ["often_widest", "inside_span", "inside_along", "inside_widest"])
    columns = {
        f"cells of {FEW} rounds or more": "{often}",
        "explained by p/n": "{often_total:.2f}",
        "widest diagonal": "{often_widest:.1f}",
        f"in the triangle (within {100 * WITHIN:.0f} of dense)": "{inside}",
        "their range": "{inside_span:.1f}",
        "s.d. along its diagonals": "{inside_along:.1f}",
        "its widest diagonal": "{inside_widest:.1f}",
    }
    return stage_table("The triangle", shown, columns)


def form_table(moved: pd.DataFrame) -> str:
    """The best cell of each diagonal, and whether it moves."""
    shown = percent(moved, ["stale"]).assign(
        best=[" ".join(f"{n:.0f}" for n in best) for best in moved["best"]],
        longer=[_count(count) for count in moved["longer"]],
        shorter=[_count(count) for count in moved["shorter"]],
    )
    columns = {
        "best n on each diagonal": "{best}",
        "place (0 gradient, 1 temporal)": "{place:.2f}",
        "moved to longer delay": "{longer}",
        "to shorter": "{shorter}",
        "the first stage's best is behind by": "{stale:.1f}",
    }
    return stage_table("The best form", shown, columns)


def bare_table(bare: pd.DataFrame) -> str:
    """How often delay alone beats gradient sparsity alone, with momentum masking and without."""
    rows = []
    for (method, stage), mine in bare.dropna().groupby(["method", "stage"], sort=False):
        gaps = mine[["masked", "unmasked"]].sub(mine["temporal"], axis=0)
        rows.append(
            {
                "method": method,
                "stage": stage,
                "levels": len(mine),
                "dense": mine["dense"].iloc[0],
                "wins": int((gaps["masked"] > 0).sum()),
                "masked": gaps["masked"].mean(),
                "bare_wins": int((gaps["unmasked"] > 0).sum()),
                "bare": gaps["unmasked"].mean(),
                "least": mine["unmasked"].min(),
                "temporal": mine["temporal"].min(),
            }
        )
    shown = percent(pd.DataFrame(rows), ["dense", "masked", "bare", "least", "temporal"])
    columns = {
        "total sparsities": "{levels}",
        "masked: temporal alone beats gradient alone": "{wins}",
        "by": "{masked:+.1f}",
        "unmasked: it does": "{bare_wins}",
        "by (mean)": "{bare:+.1f}",
        "best of gradient alone, unmasked": "{least:.1f}",
        "of temporal alone": "{temporal:.1f}",
        "dense": "{dense:.1f}",
    }
    return stage_table("Without momentum masking", shown, columns)


def _count(count: float) -> str:
    return "" if pd.isna(count) else f"{count:.0f}"
