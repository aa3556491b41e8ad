"""What is handed on, a page or a folder, does not tell the user's home."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedsim import run
from fedsim.runs.parallel import run_here
from fedsim.show import report
from tests.support.runs import small


@pytest.mark.parametrize("within_a_sweep", [False, True])
def test_an_error_and_its_page_do_not_name_the_home_folder(
    within_a_sweep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(__file__).parents[3]  # of all lines of the traceback
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))  # else its fonts would be listed at home
    config, out = small(data=str(home / "data")), tmp_path / "out"

    def broken(*_: Any, **how: Any) -> None:
        raise OSError(f"{home}/data/x is not there, nor {home}er/x")

    if within_a_sweep:
        monkeypatch.setattr("fedsim.runs.parallel.carry_out", broken)
        run_here([("one", config, out)], None)
        (out / "config.toml").write_text(config.to_toml())
    else:
        with pytest.raises(OSError, match="is not there"):
            run(config, out, callbacks=[broken])
    error = json.loads((out / "summary.json").read_text())["error"]
    resumes = "the same command resumes"
    place = "" if within_a_sweep else " (test_paths.py, line 25)"
    assert error == f"OSError: ~/data/x is not there, nor {home}er/x{place}; {resumes}"
    assert "~/fedsim/runs" in (out / "error.txt").read_text()
    page = report.report(out).read_text(encoding="utf-8")
    for text in ((out / "error.txt").read_text(), page):
        assert f"{home}/" not in text and "~/data/x" in text
    assert "<code>~/data</code>" in page
