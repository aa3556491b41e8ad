"""like-for-like: messages in other codes, and the tables of them, by other ways."""

from math import exp, log
from typing import Any

import pandas as pd
import pytest
import torch
from scipy.stats import t

from compressors import ROWS, compress, parse
from tests.support.experiments import experiment
from tests.support.markdown import ROOT

coders, coded, rows = (experiment("like-for-like", part) for part in ("coders", "coded", "rows"))
HOME = ROOT / "experiments" / "like-for-like"
RESULTS = HOME / "results" / "coders"
CASE = ["task", "method", "budget"]


def update(seed: int) -> dict[str, torch.Tensor]:
    """Heavy tails, so that symbols are not equally frequent."""
    numbers = torch.Generator().manual_seed(seed)
    shapes = {"w": (40, 30), "b": (7,)}
    return {n: torch.randn(s, generator=numbers) ** 3 for n, s in shapes.items()}


@pytest.mark.parametrize(
    ("method", "other", "slots"),
    [
        ("fedpaq(63)", "flat(dither(63) | ans)", {"symbols": "ans"}),
        (
            "sbc(0.05)",
            "ef(per_tensor(one_sided(0.05) | mean | context), mask=true)",
            {"positions": "context"},
        ),
        (
            "ef21(topk(0.1) | float32 | golomb)",
            "ef21(topk(0.1) | float32 | raw32 | exponents)",
            {"positions": "raw32", "symbols": "exponents"},
        ),
        ("natural_dither(7) | huffman", "natural_dither(7)", {"symbols": "fixed"}),
        ("eden(2)", "rotate(lloyd(2, unbiased) | ans)", {"symbols": "ans"}),
    ],
)
def test_a_message_in_another_code_is_as_long_as_that_method_makes_it(
    method: str, other: str, slots: dict[str, str]
) -> None:
    """The method with the other coder in its text compresses the same update."""
    made, seed = update(1), 5
    message = coders.read_message(
        parse(method), compress(parse(method), made, seed=seed)[0].payload, made
    )
    bits = {
        slot: sum(
            part.coded(coders.codes(slot)[name]) for part in message.parts if part.slot == slot
        )
        for slot, name in slots.items()
    }
    assert message.saved(bits) == 8 * len(compress(parse(other), made, seed=seed)[0].payload)
    assert message.saved({}) == message.bits


def test_raw_messages_are_floats() -> None:
    made = update(2)
    payload = compress(parse("raw"), made)[0].payload
    message = coders.read_message(parse("float32"), payload, made)
    assert (message.saved({}), len(message.parts)) == (8 * len(payload), 2)
    told = [x.view(torch.int32) for x in (made["w"].flatten(), made["b"])]
    assert all(torch.equal(p.data, x) for p, x in zip(message.parts, told, strict=True))


def test_all_lossless_coders_take_part() -> None:
    both = {"positions": ("positions", "coder"), "symbols": ("symbols", "coder")}
    for slot, kinds in both.items():
        names = {text.split("(")[0] for text in coders.CODERS[slot]}
        assert names | {"bloom", "zstd"} >= {row.name for row in ROWS if row.kind in kinds}


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / f"{name}.csv")


def ratios() -> dict[tuple[Any, ...], list[float]]:
    """By case the ratio of every round."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for line in read("messages").itertuples():
        found.setdefault((line.task, line.method, line.budget), []).append(line.best / line.paper)
    return found


def test_the_page_s_tables_are_those_of_the_messages() -> None:
    page = (HOME / "README.md").read_text(encoding="utf-8")
    by_method: dict[str, list[float]] = {}
    for (task, method, budget), values in ratios().items():
        mean = pd.Series(values).mean()
        spread = f" ± {pd.Series(values).std():.3f}" if len(values) > 1 else ""
        row = f"| {task} | 1/{1 / budget:.0f}"[:-1]
        assert any(
            line.startswith(row)
            and f"| {method} | {len(values)} |" in line
            and f"| {mean:.3f}{spread} |" in line
            for line in page.splitlines()
        ), (task, method, budget)
        if budget == 0.00333:
            by_method.setdefault(method, []).append(log(mean))
    for method, logs in by_method.items():
        mean = sum(logs) / len(logs)
        row = f"| {method} | {len(logs)} | {exp(mean):.3f} | "
        if len(logs) > 1:
            half = t.ppf(0.975, len(logs) - 1) * pd.Series(logs).std() / len(logs) ** 0.5
            row += f"{exp(mean - half):.3f} to {exp(mean + half):.3f}"
        assert row in page


def test_committed_messages_are_those_of_the_finals() -> None:
    """Runs that are whole repeat their finals' bits; the best coder is the best of all."""
    runs, codes, messages = (read(name) for name in ("runs", "codes", "messages"))
    whole = runs[runs["coded_rounds"] == runs["rounds"]]
    printed = whole["up_bits"].map("{:.6g}".format).astype(float)  # finals have six digits
    assert (printed == whole["finals_up_bits"]).all() and len(whole)
    for row in whole.itertuples():
        finals = pd.read_csv(HOME / "results" / row.task / "finals.csv")
        at = finals[(finals["method"] == row.method) & (finals["seed"] == coders.SEED)]
        assert (at.loc[at["budget"] == row.budget, "bits_up"] == row.finals_up_bits).all()
    for _, part in codes.groupby([*CASE, "slot"]):
        assert part.loc[part["is_best"], "bits"].tolist() == [part["bits"].min()]
    sums = messages.groupby(CASE)[["best", "run"]].sum()  # a coder is chosen for the run
    assert (sums["best"] <= sums["run"]).all()
    assert (messages["run"] <= messages["paper"]).all()
    changed = {*messages.loc[messages["run"] != messages["paper"], "method"]}
    assert changed <= {*coders.PAPERS}
    page = (HOME / "README.md").read_text(encoding="utf-8")
    assert f"{runs['seconds'].sum() / 60:.1f} core minutes" in page
