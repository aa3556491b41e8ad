"""Runs the claims of ``CLAIMS.md`` and says which hold.

``python docs/run_claims.py`` runs those of at most two minutes, ``--minutes 60`` longer ones too.
It exits with 1 where a number is farther from its claim than the page accepts.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd

PAGE = Path(__file__).parents[1] / "CLAIMS.md"


class Claim(NamedTuple):
    """A row of the page; ``value``: an expression of columns."""

    claim: str
    page: str
    command: str
    value: str
    claimed: float
    within: float
    minutes: float


def claims() -> list[Claim]:
    """The rows whose value a command prints."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        texts = [cell.strip("`") for cell in re.split(r" \| ", line.strip("| "))]
        if len(texts) == len(Claim._fields) and texts[3] not in ("value", "---"):
            claim, page, command, value, claimed, within, minutes = texts
            found.append(
                Claim(claim, page, command, value, float(claimed), float(within), float(minutes))
            )
    return found


@cache
def printed(command: str) -> pd.DataFrame:
    """What a run, or the last cell of a sweep, came to: one row."""
    with tempfile.TemporaryDirectory() as folder:
        program, *arguments = shlex.split(command)
        assert program == "fedsim", command
        done = subprocess.run(
            [sys.executable, "-m", "fedsim", *arguments, "--json", "--out", folder],
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr}")
    document = json.loads(done.stdout)
    return pd.DataFrame([document["cells"][-1] if "cells" in document else document])


def main(minutes: float) -> int:
    """Prints a line per claim; 1 if one does not hold."""
    failed = 0
    for one in claims():
        if one.minutes > minutes:
            print(f"not run  {one.claim}: {one.minutes:g} minutes")
            continue
        value = float(printed(one.command).eval(one.value).item())
        holds = abs(value - one.claimed) <= one.within
        failed += not holds
        limits = f"claimed {one.claimed:g} within {one.within:g}"
        word = "holds" if holds else "FAILS"
        print(f"{word:8} {one.claim}: {value:.6g}, {limits}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="of the longest claim to run")
    sys.exit(main(parser.parse_args().minutes))
