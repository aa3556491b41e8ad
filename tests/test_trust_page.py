"""The tables of lying clients and of noise are those of their files, and named tests are there."""

import math
import re
import runpy

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from tests.compressors.test_short_messages import MODELS, OWN, bodies
from tests.fedsim.results.test_strangers import ODD
from tests.fedsim.runs.test_crashes import SAMPLE as OPERATIONS
from tests.fedsim.runs.test_verify_columns import RUNS
from tests.strategies.test_hostile_replies import LONG, STRATEGIES
from tests.support.markdown import ROOT
from tests.support.reach import SAMPLE
from tests.test_corpus import corpus

TEXT = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_files() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_trust.py"))
    rows = made["read"](made["ROBUST"])
    assert len(rows) == len(made["METHODS"]) * len(made["RULES"]) * len(made["ATTACKS"])
    assert all(len(row["accuracy"].split()) == made["SEEDS"] for row in rows)


def test_cells_have_the_intervals_of_falls_and_their_marks() -> None:
    """Student's, paired over five seeds; italic where it holds 5 points."""
    rows = pd.read_csv(ROOT / "docs" / "robust.csv").set_index(["method", "rule", "attack"])
    seeds = rows["accuracy"].str.split(expand=True).astype(float)
    undecided, falling = 0, 0
    for (method, rule, attack), own in seeds.iterrows():
        base = seeds.loc[(method, "mean", "nobody")]
        same = (base == own).all()
        low, high = (0, 0) if same else ttest_rel(base, own).confidence_interval()
        line = next(x for x in TEXT.splitlines() if x.startswith(f"| `{method}` | {rule} |"))
        cells = line.split(" | ")
        cell = cells[2 + ["nobody", "sign-flip", "scale", "label-flip"].index(attack)].strip(" |")
        mark = "**" if low > 5 else "*" if high > 5 else ""
        ends = "" if same else f" ({low:.1f} to {high:.1f})".replace("-0.0", "0.0")
        assert cell == f"{mark}{own.mean():.1f}{ends}{mark}", (method, rule, attack)
        undecided += mark == "*"
        falling += mark == "*" and np.mean(base - own) > 5
    assert (undecided, falling) == (11, 8) and "11 of the 40 cells; eight of them" in TEXT
    assert seeds.shape == (40, 5)
    text = " ".join(TEXT.split())
    for words, method, rule, attack in (
        ("(0.0 to 1.0 points above)", "raw", "norm clipping", "sign-flip"),
        ("by 9.5 to 20.5 points under sign-flip", "sbc(0.05)", "Krum", "sign-flip"),
        ("by 11.1 to 61.1 under `scale`", "sbc(0.05)", "Krum", "scale"),
        ("(0.8 below to 5.5 above)", "sbc(0.05)", "Krum", "label-flip"),
    ):
        pair = seeds.loc[(method, rule, attack)], seeds.loc[(method, "mean", attack)]
        ends = [abs(float(x)) for x in re.findall(r"\d+\.\d", words)]
        assert words in text and ends == pytest.approx(
            [abs(end) for end in ttest_rel(*pair).confidence_interval()], abs=0.051
        )


def test_every_test_that_keeps_a_promise_is_there() -> None:
    names = set(re.findall(r"`([\w/]*test_\w+\.py)(?:::\w+)?`", TEXT))
    files = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(names) > 12
    for name in names:
        assert (ROOT / name).exists() if "/" in name else name in files, name
    for file, test in re.findall(r"`([\w/]*test_\w+\.py)::(\w+)`", TEXT):
        (path,) = (ROOT / "tests").rglob(file.rpartition("/")[2])
        assert f"def {test}(" in path.read_text(encoding="utf-8"), test


def test_the_faults_are_those_that_tests_and_drivers_wrote_down() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_faults.py"))
    for page, text in made["pages"]().items():
        assert page.read_text(encoding="utf-8") == text, "run: python docs/make_faults.py"
    kills, files = made["read"]("kills.csv"), made["read"]("crashes.csv")
    assert f"| {len(kills)} | nothing |" in TEXT
    assert len({tuple(row.values()) for row in kills}) == len(kills) > 8
    assert all(int(row["tried"]) <= int(row["points"]) for row in files)


def test_as_many_federations_are_drawn_as_the_page_says() -> None:
    drawn = (ROOT / "tests/fedsim/runs/test_whole_federations.py").read_text(encoding="utf-8")
    (few,) = re.findall(r"max_examples=(\d+)", drawn)
    (many,) = re.findall(r'"FEDSIM_FEDERATIONS", "(\d+)"', drawn)
    page = " ".join(TEXT.split())
    assert f"{few} drawn federations are, in the gate, and {many} in `make test-all`" in page


def test_figures_are_those_of_the_tests() -> None:
    """Each promise's own: words of its row, and the numbers that its test has."""
    number = dict(zip((3, 5, 6), ("three", "five", "six"), strict=True))
    inputs = sum(len(corpus(f"{name}.json")) for name in ("payloads", "replies", "twin", "crashes"))
    own = {name: f"`{name}` {most:.0f}" for name, most in OWN.items()}
    last = own.pop("fetchsgd")
    rho = {z: 100 / (2 * z * z) for z in (1, 10)}
    spent = {z: r + 2 * math.sqrt(r * math.log(1e5)) for z, r in rho.items()}
    for words in (
        f"at most {number[int(MODELS)]} times the memory of the model",
        f"take more: {', '.join(own.values())} and {last} times.",
        f"{len(bodies()) + 1} messages each",
        f"every column of {number[len(RUNS)]} runs",
        f"{number[len(STRATEGIES)]} strategies; {LONG:,} replies of each",
        f"{inputs} inputs:",
        f"{len(ODD)} files with",
        f"{len(SAMPLE)} files and folders of tests",
        f"the gate draws {sum(OPERATIONS.values())} others",
        f"that is epsilon = {spent[1]:.0f}: no privacy to speak of. z = 10 gives {spent[10]:.1f}.",
    ):
        assert words in " ".join(TEXT.split()), words


def test_every_promise_names_a_test() -> None:
    table = TEXT.partition("## Promises and their tests")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    promises = [row for row in rows if row[0] not in ("promise", "---")]
    assert len(promises) > 20
    assert [row[0] for row in promises if not re.search(r"`[\w/]*test_\w+\.py", row[-1])] == []
