"""Committed numbers, made again: `python -m tests.support.rows --data DIR [--only NAME,...]`.

Each line of ``AGAIN`` runs a part of an experiment and compares its CSV files, as text, with the
committed ones: all but measured times and the name of the copy of the data. A machine has its own
rounding, and training shows it. ``--tree`` names a checkout of the commit that made the numbers:
what its code makes on this machine is then compared with, in place of the committed files.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory

import pandas as pd

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Again:
    """A part of the experiment ``name``.

    Attributes:
        only: the value of ``--only``; empty: all. Of a sweep, a cell.
        tables: by CSV file the columns that identify a row; both files have equally many rows of
            each value of the first.
        timed: columns that are left out, by spaces.
        sweep: whether ``only`` is a cell of the ``runs.toml`` beside the one table.
    """

    name: str
    only: str
    tables: Mapping[str, str]
    timed: str = ""
    sweep: bool = False

    def run(self, tree: Path, data: str, out: Path) -> str:
        """Runs the code of ``tree``; what it said if it failed. What ``out`` holds stays."""
        part = ["experiment", self.name, *(["--only", self.only] if self.only else [])]
        if self.sweep:
            folder = Path(*self.tables).parent
            listed = tree / "experiments" / self.name / "results" / folder / "runs.toml"
            head, *cells = re.split(r"\n(?=\[cells\.)", listed.read_text())
            out.mkdir(parents=True, exist_ok=True)
            one = out / "one.toml"
            one.write_text("\n".join([head, *(c for c in cells if f"[cells.{self.only}]" in c)]))
            part, out = ["sweep", "--config", str(one)], out / folder
        command = [sys.executable, "-m", "fedsim", *part, "--data", data, "--out", str(out)]
        ran = subprocess.run(command, cwd=tree, capture_output=True, text=True)
        return ran.stderr[-500:] or "failed" if ran.returncode else ""

    def differences(self, old: Path, new: Path) -> Iterator[str]:
        """A line per row in which the files of two folders differ."""
        for file, spaced in self.tables.items():
            if not (old / file).exists():
                yield f"{file} is not there"
                continue
            was, now = (pd.read_csv(x / file, dtype=str).fillna("") for x in (old, new))
            was = was.drop(columns=["data_source", *self.timed.split()], errors="ignore")
            yield from (f"{file}: {line}" for line in compared(was, now, spaced.split()))


def compared(old: pd.DataFrame, new: pd.DataFrame, keys: list[str]) -> Iterator[str]:
    """What differs of the rows of ``new``, a line each; both frames are text."""
    yield from (f"no column {c}" for c in old if c not in new)
    columns, first = [c for c in old if c in new], keys[0]
    for value, rows in new.groupby(first, sort=False):
        if (many := int((old[first] == value).sum())) != len(rows):
            yield f"{first} {value}: {len(rows)} rows for {many}"
    for row in new.to_dict("records"):
        alike = old[(old[keys] == [row[key] for key in keys]).all(axis=1)].to_dict("records")
        found = [[f"{c} {w[c]} is now {row[c]}" for c in columns if w[c] != row[c]] for w in alike]
        if nearest := min(found or [["no such row"]], key=len):
            yield " ".join(f"{key} {row[key]}" for key in keys) + ": " + ", ".join(nearest)


_LINES, _STAGE = "name iteration", "task method stage"
AGAIN = (
    Again("async-dropping", "sync-drop-99",
          {"runs.csv": "name seed", "curves.csv": "name updates"}),
    Again("bandwidth", "digits,dense,golomb", {"digits/times.csv": "row seed rate"},
          "seconds_coded each_coded"),
    Again("cnat-convergence", "digits", {"digits/methods.csv": "name", "digits/curves.csv": _LINES,
          "digits/pairs.csv": "without with"}),
    Again("cnat-exponents", "digits,mnist_lenet5",
          {"facts.csv": "task kind", "exponents.csv": "task kind exponent"}),
    Again("cnat-variance", "", {"variance.csv": "figure family method s"}),
    Again("cnat-variance", "char_lstm", {"real/real.csv": "task method"}),
    Again("fedavg", "rates,2nn-iid-b10", {"rates/rates.csv": "row lr",
          "rates/curves.csv": "name seed round"}),
    Again("cohorts", "", {"policies.csv": "name seed"}),
    Again("distortion", "digits_iid", {"distortions.csv": "task method strength n"}),
    Again("crossing", "digits_iid,125", {
          "digits_iid/trials-125.csv": "method budget n factor",
          "digits_iid/finals-125.csv": "method budget seed"}, "seconds"),
    Again("deepreduce", "fashion_lenet5,topr-p2-0.001,fit-poly", {"fashion_lenet5/tables.csv":
          "name", "fashion_lenet5/curves.csv": _LINES}, "encode_ms decode_ms"),
    Again("gradient-dropping", "drop-99", {"clients_adagrad/summary.csv": "method"},
          "seconds", True),
    Again("huffman-encoders", "mnist_lenet5", {"tables.csv": "task quantizer lift encoder"},
          "encode_seconds encode_ns decode_ns"),
    Again("like-for-like", "digits_iid,ef_sign", {
          "digits_iid/trials.csv": "method budget rounds factor part",
          "digits_iid/finals.csv": "method budget seed"}, "encode_ms 4g_seconds wifi_seconds"),
    Again("masking", "digits", {"digits/trials.csv": "n p beta arm lr seed",
          "digits/finals.csv": "n p beta arm seed"}),
    Again("moving-plane", "digits", {"digits/budgets.csv": "budget",
          "digits/moving.csv": "budget name", "digits/curves.csv": "name seed iteration"}),
    Again("ncf-movielens", "cnat",
          {"table2.csv": "name", "curves.csv": _LINES, "positions.csv": "code"}),
    Again("position-coding", "digits", {"positions.csv": "model setting client coder"},
          "encode_ns decode_ns"),
    Again("sbc-matrix", "digits", {"digits/matrix.csv": f"{_STAGE} temporal gradient",
          "digits/unmasked.csv": f"{_STAGE} gradient", "digits/forms.csv": f"{_STAGE} diagonal",
          "digits/diagonals.csv": _STAGE}),
    Again("sbc-curves", "digits", {"digits/sparsity.csv": f"{_STAGE} temporal gradient kind",
          "digits/curves.csv": "task method temporal iteration"}),
    Again("sbc-table1", "", {"mnist_lenet5/messages.csv": "name"}),
    Again("sbc-table2", "sbc3", {"mnist_lenet5/summary.csv": "temporal"}, "seconds", True),
    Again("topk-cnat", "char_lstm,topk-cnat-0.39",
          {"char_lstm/tables.csv": "name", "char_lstm/curves.csv": _LINES}),
)  # fmt: skip


def main(only: list[str], data: str, out: Path, tree: Path | None) -> int:
    """Prints a line per part, and below it the first differences; 1 if there are any."""
    code = 0
    for again in (a for a in AGAIN if not only or a.name in only):
        new, old = out / f"{again.name}-short", ROOT / "experiments" / again.name / "results"
        before = getrusage(RUSAGE_CHILDREN).ru_utime
        failed = again.run(ROOT, data, new)
        seconds = getrusage(RUSAGE_CHILDREN).ru_utime - before
        if tree:
            old = out / "tree" / f"{again.name}-short"
            failed = failed or again.run(tree, data, old)
        found = [failed] if failed else list(again.differences(old, new))
        told = f"{len(found)} differ" if found else "equal"
        print(f"{again.name} | {again.only or 'all'} | {seconds:.0f} s | {told}", flush=True)
        print(*(f"    {line}\n" for line in found[:3]), sep="", end="", flush=True)
        code |= bool(found)
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with data sets")
    parser.add_argument("--only", default="", help="experiments, by commas; default: all")
    parser.add_argument("--out", type=Path, help="keeps the runs, which are not run again there")
    parser.add_argument("--tree", type=Path, help="a checkout to compare with")
    flags = parser.parse_args()
    with TemporaryDirectory() as kept:
        folder, tree = (flags.out or Path(kept)).resolve(), flags.tree and flags.tree.resolve()
        sys.exit(main([*filter(None, flags.only.split(","))], flags.data, folder, tree))
