"""``pace`` in a run: each client its own n, its own time on the clock, and FedNova's weights.

Four clients whose iterations take 0.5, 0.75, 4 and 0.125 s: of 2 s they have time for 4, 2, none
(1 is done all the same) and 16 iterations, of which 8 are allowed.
"""

from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, run
from fedsim.network.pricing import SECONDS
from fedsim.results.schema import read_summary
from fedsim.settings.controllers import ClientObservation, parse_controller
from fedsim.settings.controllers.links import Pace
from tests.support.runs import clients
from tests.support.threes import give_links, table, threes

COMPUTE = [0.5, 0.75, 4.0, 0.125]
N = [4, 2, 1, 8]


def paced(
    make_task: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> RunConfig:
    """A run of two rounds; client 0 has two samples and the others one."""
    give_links(monkeypatch, compute=COMPUTE, up=[120, 60, 120, 40])
    task = make_task(**threes([16.0, 32.0, 64.0, 256.0], samples=1, more=1))
    config = RunConfig.of(
        task=task.name,
        method="raw",
        temporal=1,
        controller="pace(2, most=8)",
        network="down=120bit, compute=1s",
        **{"iterations": 10, **settings},
    )
    run(config, folder)
    return config


def test_each_client_has_its_own_n_and_its_own_time(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten iterations: a round of eight, the most that a client does, and one of two.

    The order takes 8 bits, 1/15 s, and from round 2 the model 1 s. Training takes 2, 1.5, 4 and 1
    s, and in round 2, with at most two iterations, 1, 1.5, 4 and 0.25 s; uploads 1, 2, 1 and 3 s.
    """
    paced(make_task, tmp_path, monkeypatch)
    rows, came = table(tmp_path), clients(tmp_path)
    assert rows["local_iterations"].tolist() == [8, 2] and rows["iteration"].tolist() == [8, 10]
    assert came["local_iterations"].tolist() == N + [2, 2, 1, 2]
    assert rows["used_iterations"].tolist() == [15 / 4, 7 / 4]
    summary = read_summary(tmp_path)
    wanted = 32 * summary["trained_parameters"] * 5.5 / summary["up_wire_bits"]
    assert summary["ratio_wire"] == pytest.approx(wanted) and summary["iterations"] == 10
    order = 1 / 15
    trained = [2, 1.5, 4, 1, 1, 1.5, 4, 0.25]
    assert came[SECONDS[0]].tolist() == pytest.approx([order] * 4 + [1 + order] * 4)
    assert came[SECONDS[1]].tolist() == pytest.approx(trained, abs=1e-9)
    assert came[SECONDS[2]].tolist() == pytest.approx([1, 2, 1, 3] * 2, abs=1e-9)
    assert rows["sim_seconds"].tolist() == pytest.approx([order + 5, order + 6], abs=1e-9)
    assert came["down_order_bits"].eq(8).all()


@pytest.mark.parametrize(
    ("text", "compute", "n"),
    [
        ("pace(2)", 0.5, 4),
        ("pace(2)", 0.51, 3),
        ("pace(2)", 2.0, 1),
        ("pace(2)", 2.5, 1),
        ("pace(2)", 1.01, 1),
        ("pace(2, most=4)", 0.5, 4),
        ("pace(2, most=3)", 0.5, 3),
        ("pace(2)", 0.0, 100),
        ("pace(2)", 0.02, 100),
        ("pace(2)", 0.0201, 99),
        ("pace(2, most=1)", 0.5, 1),
        ("pace(2, most=1)", 5.0, 1),
    ],
)
def test_as_many_as_there_is_time_for(text: str, compute: float, n: int) -> None:
    """The whole part of seconds / compute, from 1 to ``most``, which is 100 unless given."""
    controller = parse_controller(text)
    assert isinstance(controller, Pace)
    assert controller.iterations(ClientObservation(compute=compute)) == n


@pytest.mark.parametrize(("seconds", "compute", "n"), [(0.3, 0.1, 3), (0.6, 0.2, 3), (0.7, 0.1, 7)])
def test_what_fits_exactly_is_done(seconds: float, compute: float, n: int) -> None:
    """`pace(0.3)` and `compute=100ms`: three iterations take so many seconds."""
    assert Pace(seconds).iterations(ClientObservation(compute=compute)) == n
