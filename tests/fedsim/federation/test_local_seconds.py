"""``--local-seconds``: each client does what fits into a time, and books that know it.

Two clients pull three numbers half-way to 16 and to 64 with every iteration, as those of
``test_local_epochs``. An iteration takes them 0.5 s and 2 s.
"""

from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, UsageError, load, run
from fedsim.federation.local_steps import client_steps
from fedsim.network import parse as parse_network
from fedsim.results.labels import delay_symbol
from fedsim.results.schema import read_summary
from fedsim.runs.verify.verify import verify
from fedsim.show.times import priced
from tests.support.runs import clients
from tests.support.threes import MODEL, give_links, last, table, threes

NETWORK = "down=120bit, up=120bit, compute=1s"


def trained(make_task: Any, folder: Path, monkeypatch: Any, **settings: Any) -> None:
    give_links(monkeypatch, compute=[0.5, 2.0])
    task = make_task(**threes([16.0, 64.0], samples=1, more=1))
    given = {"method": "raw", "rounds": 2, "local_seconds": "1s", "network": NETWORK} | settings
    run(RunConfig.of(task=task, **given), folder, progress=False)


def test_every_client_does_what_fits(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two iterations fit into 1 s, and of the slow client one that takes 2 s.

    So they are those of an epoch in ``test_local_epochs``: models 22 and 30.25, and n = 1.5.
    """
    trained(make_task, tmp_path, monkeypatch)
    rows, summary = table(tmp_path), read_summary(tmp_path)
    assert last(tmp_path) == [30.25] * 3
    assert clients(tmp_path)["local_iterations"].tolist() == [2, 1] * 2
    assert clients(tmp_path)["sim_compute_seconds"].tolist() == [1.0, 2.0] * 2
    assert rows["used_iterations"].tolist() == [1.5] * 2
    assert rows["iteration"].tolist() == [2, 3] and rows["local_iterations"].tolist() == [2, 2]
    own = rows["sim_seconds"].tolist()
    assert own == [2 + 1, 1 + 2 + 1]
    assert (summary["temporal"], summary["local_seconds"], summary["iterations"]) == (1, 1.0, 3)
    assert summary["total_sparsity"] == 1 / 1.5
    assert summary["ratio_wire"] == 32 * 3 * 3 / (2 * MODEL)
    results = load(tmp_path)
    assert delay_symbol(results.runs) == "T"
    again = priced(results, parse_network(NETWORK))["sim_seconds"].tolist()
    assert again == pytest.approx(own, abs=1e-9)
    for other in ("up=120bit, compute=2s", "4g", "up=120bit, compute=1*measured"):
        with pytest.raises(UsageError, match="local_seconds = 1"):
            priced(results, parse_network(other))
    assert not verify(tmp_path).failures


@pytest.mark.parametrize(
    ("seconds", "compute", "n"),
    [(0.3, 0.1, 3), (1.0, 1 / 3, 3), (0.1, 5.0, 1), (7.0, 2.0, 3), (0.7, 0.1, 7)],
)
def test_whole_iterations_fit_in_spite_of_roundings(seconds: float, compute: float, n: int) -> None:
    plan = RunConfig.of(network=f"compute={compute!r}s", rounds=1, local_seconds=seconds).plan
    steps = client_steps(plan, [], plan.network, seed=0)
    assert steps is not None and steps(0) == n
