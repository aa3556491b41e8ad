"""``fedsim completion``: bash completes with the script that it prints."""

import subprocess

import pytest

from tests.support.commands import Typed

_COMPLETE = """
source /dev/stdin
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_shtab_fedsim fedsim "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
echo "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    "line, word",
    [
        ("sw", "sweep"),
        ("run --local-e", "--local-epochs"),
        ("run --task dig", "digits"),
        ("sweep --method sb", "sbc"),
        ("run --strategy fedn", ""),
        ("list cod", "coders"),
    ],
)
def test_bash_completes(line: str, word: str, typed: Typed) -> None:
    pytest.importorskip("shtab", reason="completion needs shtab (pip install 'fedsim-lab[all]')")
    script = typed("completion", "bash").out
    done = subprocess.run(
        ["bash", "-c", _COMPLETE, "bash", "fedsim", *line.split()],
        input=script,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == word
