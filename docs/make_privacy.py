"""Accuracy, bits and epsilon together: compression with and without differential privacy.

``PYTHONPATH=. python docs/make_privacy.py`` trains 45 runs on digits (about five minutes on one
core), writes ``docs/privacy.csv`` row by row, and puts the table into ``docs/privacy.md``. Rows
that the file has are not trained again. ``--page`` writes the page alone.
"""

import csv
import re
import sys
from pathlib import Path
from statistics import fmean, stdev

from fedsim import RunConfig, run

TABLE, PAGE = (Path(__file__).with_name(f"privacy.{kind}") for kind in ("csv", "md"))
METHODS = ("raw", "sbc(0.05)", "ef(topk(0.05) | float32 | golomb)")
STRATEGIES = ("dsgd", "dp(noise=0.5, clip=0.3)", "dp(noise=2.0, clip=0.3)")
SEEDS = 5
FIELDS = ("method", "strategy", "seed", "accuracy", "up_bits", "epsilon")


def config(method: str, strategy: str, seed: int) -> RunConfig:
    """8 rounds of 3 iterations on 40 clients, all of them in every round."""
    return RunConfig.of(
        method=method,
        strategy=strategy,
        seed=seed,
        clients=40,
        temporal=3,
        rounds=8,
        lr=0.1,
        evaluate_every=8,
    )


def read() -> list[dict[str, str]]:
    """The rows of ``docs/privacy.csv``."""
    if not TABLE.exists():
        return []
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def train() -> None:
    """Adds the rows that the file lacks."""
    rows = read()
    known = {(row["method"], row["strategy"], row["seed"]) for row in rows}
    for seed in range(SEEDS):
        for method in METHODS:
            for strategy in STRATEGIES:
                if (method, strategy, str(seed)) in known:
                    continue
                done = run(config(method, strategy, seed), progress=False).summary
                epsilon = done.get("epsilon")
                values = (
                    method,
                    strategy,
                    str(seed),
                    f"{100 * done['metric']:.2f}",
                    f"{done['up_wire_bits']:.0f}",
                    "" if epsilon is None else f"{epsilon:.4f}",
                )
                rows.append(dict(zip(FIELDS, values, strict=True)))
                write(rows)
                print(*values, file=sys.stderr, flush=True)


def write(rows: list[dict[str, str]]) -> None:
    """The file, methods and strategies in their order."""
    order = {pair: i for i, pair in enumerate((m, s) for m in METHODS for s in STRATEGIES)}
    rows.sort(key=lambda row: (order[row["method"], row["strategy"]], row["seed"]))
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table(rows: list[dict[str, str]]) -> str:
    """The table in Markdown: means over the seeds, with the sample deviation of the accuracy."""
    lines = [
        "| method | strategy | accuracy | kbit up, of a client | epsilon |",
        "| --- | --- | --- | --- | --- |",
    ]
    for method in METHODS:
        for strategy in STRATEGIES:
            own = [r for r in rows if (r["method"], r["strategy"]) == (method, strategy)]
            scores = [float(row["accuracy"]) for row in own]
            bits = fmean(float(row["up_bits"]) for row in own) / 1000
            epsilon = f"{float(own[0]['epsilon']):.1f}" if own[0]["epsilon"] else "none"
            name = method.replace("|", "\\|")
            lines.append(
                f"| `{name}` | `{strategy}` | {fmean(scores):.1f} ({stdev(scores):.1f}) | "
                f"{bits:,.0f} | {epsilon} |"
            )
    return "\n".join(lines)


def page() -> str:
    """``privacy.md`` with the table of the file."""
    text, made = PAGE.read_text(encoding="utf-8"), table(read())
    between = re.compile(r"(<!-- privacy -->\n).*?(<!-- end of privacy -->)", re.DOTALL)
    return between.sub(lambda found: f"{found[1]}{made}\n{found[2]}", text)


if __name__ == "__main__":
    if "--page" not in sys.argv:
        train()
    PAGE.write_text(page(), encoding="utf-8")
