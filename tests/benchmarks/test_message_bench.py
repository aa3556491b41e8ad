"""The benchmark of whole messages: what it runs, not how fast anything is."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


SCRIPT = "message"


def test_every_method_is_timed_and_printed(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "resnet50", lambda: {"w": (30, 20), "b": (7,)})
    monkeypatch.setattr(bench, "_TIMES", 2)
    monkeypatch.setattr(bench, "compiling", lambda method: 1.5)
    monkeypatch.setattr(bench, "_child", lambda arguments, more: 2.0)
    bench.main(["--repeats", "2", "--json", str(tmp_path / "m.json")])
    result, printed = json.loads((tmp_path / "m.json").read_text()), capsys.readouterr().out
    assert [row["method"] for row in result["rows"]] == list(bench.METHODS)
    for row in result["rows"]:
        assert min(row["encode"], row["decode"], row["encode_us"], row["decode_us"]) > 0
        assert row["memory"] == 2.0 and row["compile"] == 1.5
    assert printed.count("\n| ") == 2 + len(bench.METHODS)
    assert "| raw | " in printed and " (1.1) | " in printed


_MEMORY = """
import sys
sys.path.append(sys.argv[1])
import message
try:
    print(message.memory_of("raw", {"w": (5_000_000,)}))
except OSError:
    print("unknown")
"""


@pytest.mark.slow
@pytest.mark.processes
def test_the_memory_of_a_message() -> None:
    """A raw message is as large as the update: two updates, give or take what Python needs.

    In a process of its own: in another one a message may lie where something was freed.
    """
    told = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(BENCHMARKS)],
        cwd=BENCHMARKS.parent,
        text=True,
        capture_output=True,
        check=True,
    ).stdout.split()[-1]
    if told == "unknown":
        pytest.skip("this system does not tell a process its peak of memory")
    assert 1.9 < float(told) < 2.2
