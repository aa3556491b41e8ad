"""``--open``: the page in a browser, or why not."""

import webbrowser
from pathlib import Path

import pytest

from fedsim.commands.output import open_page


@pytest.mark.parametrize("opens", [True, False])
def test_a_page_is_opened_where_there_is_a_browser(
    opens: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, seen = tmp_path / "a report.html", []
    page.touch()
    monkeypatch.setattr(webbrowser, "open", lambda url: seen.append(url) or opens)
    assert open_page(page) is opens
    assert seen == [page.as_uri()] and " " not in seen[0]
    assert (str(page) in capsys.readouterr().err) is not opens


def test_a_page_that_does_not_exist_is_not_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not open_page(tmp_path / "report.html")
    assert "report.html" in capsys.readouterr().err
