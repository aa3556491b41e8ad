"""``CLAIMS.md``: each number stands on its page; one claim is run."""

import runpy
from typing import Any

import pytest

from tests.support.markdown import ROOT


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "run_claims.py"))


def test_each_number_stands_on_the_page_that_claims_it(script: dict[str, Any]) -> None:
    claims = script["claims"]()
    assert len(claims) >= 8
    for claim in claims:
        text = (ROOT / claim.page).read_text(encoding="utf-8")
        number = claim.claim.rpartition("about ")[2].split()[0]
        said = number if claim.page == "README.md" else f"{claim.claimed:g}"
        assert said in text, claim
        assert 0 < claim.within < abs(claim.claimed)


@pytest.mark.slow
def test_a_claim_is_run_and_compared(
    script: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    epsilon = next(one for one in script["claims"]() if one.value == "epsilon")
    for claimed, code in ((epsilon.claimed, 0), (2 * epsilon.claimed, 1)):
        wrong = [epsilon._replace(claimed=claimed), epsilon._replace(minutes=999.0)]
        monkeypatch.setitem(script["main"].__globals__, "claims", lambda rows=wrong: rows)
        assert script["main"](2.0) == code
    out = capsys.readouterr().out
    assert "holds" in out and "FAILS" in out and "not run" in out
