"""fedsim equals the slow twin, which was written from the documentation alone, on drawn cases."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.markdown import ROOT
from tests.support.twin import task
from tests.support.twin.cases import (
    COMPOSED,
    EPOCHS,
    LINKS,
    POWERED,
    SAMPLED,
    SLOTTED,
    TIMED,
    TOPK,
    case,
    features,
)
from tests.support.twin.compare import differences
from tests.support.twin.triples import ALGORITHMS, FEATURES, TRIPLES, pairs

CASES = int(os.environ.get("FEDSIM_TWIN", "100"))
CHUNK = 10


def begins(first: int, cases: int, quick: int) -> list[Any]:
    """Where chunks of the cases from a number on begin; the quick suite takes the first few."""
    slow = {True: [pytest.mark.slow], False: []}
    chunks = range(0, cases, CHUNK)
    return [pytest.param(first + begin, marks=slow[begin >= quick]) for begin in chunks]


SEEN = [pytest.param(n, marks=pytest.mark.slow) for n in (120, 385, 2010, TRIPLES + 640)]
"""Where a case once differed: in 120 and 385 workers that hold parts of the model drop out, or are
late; 2010 has rows in which a server that does not wait asks nobody; case 9 of the last has a round
of late updates alone, one of which arrived while the server waited for clients."""


DRAWN = [
    *begins(0, CASES // 5, 10),
    *begins(TRIPLES, CASES * 7 // 5, 10),
    *begins(COMPOSED, CASES // 10, 0),
    *begins(EPOCHS, CASES // 10, 0),
    *begins(TIMED, CASES // 10, 0),
    *begins(SAMPLED, CASES // 10, 10),
    *begins(POWERED, CASES // 10, 0),
    *begins(SLOTTED, CASES // 10, 0),
]


@pytest.mark.parametrize("begin", [*DRAWN, *SEEN])
def test_equals_the_twin(begin: int, tmp_path: Path) -> None:
    """Cases from ``COMPOSED`` on have FedProx around another algorithm, from ``EPOCHS`` on epochs,
    from ``TIMED`` on local seconds, from ``SAMPLED`` on a sampler, and from ``POWERED`` on energy.
    From ``TRIPLES`` on each has a pair of docs/pairs.md and two features more, and from ``SLOTTED``
    on slots, every second one secure aggregation, too.
    """
    found = {}
    for number in range(begin, begin + CHUNK):
        settings = case(number, tmp_path / str(number))
        different = differences(settings, tmp_path / str(number))
        if different:
            found[number] = [str(settings), *features(settings), *different[:5]]
    assert not found


def test_link_fills_an_upload_with_the_payload_alone(tmp_path: Path) -> None:
    """Losses that a sampler has reported are no part of the bits of a client's last message."""
    settings = {
        "task": task.PLAIN,
        "seed": 3,
        "method": TOPK,
        "gradient": 0.3,
        "clients": 4,
        "cohort": 2,
        "temporal": 2,
        "iterations": 8,
        "batch_size": 3,
        "network": LINKS[1],
        "controller": "link(0.1, least=0.05, most=0.9)",
        "sampler": "power_of_choice(3, stale=true)",
    }
    assert not differences(settings, tmp_path)


def test_triples_have_the_pairs_of_the_page() -> None:
    algorithms, features = ({*names} for names in zip(*pairs(), strict=True))
    assert algorithms == {*ALGORITHMS} and features == {*FEATURES}
    page = " ".join((ROOT / "docs" / "pairs.md").read_text(encoding="utf-8").split())
    assert f"{len(ALGORITHMS)} algorithms and {len(FEATURES)} features take part" in page
