"""What an asynchronous run does not go with, told before any work."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fedsim import UsageError, load, run
from fedsim.network import parse
from fedsim.show.times import priced
from tests.support.asyncruns import asynchronous
from tests.support.runs import make_task

__all__ = ["make_task"]  # the fixture


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"network": None}, "--network is not given"),
        ({"network": "4g"}, "--network is '4g'"),
        ({"staleness": "linear"}, "staleness is 'linear': a weight by staleness is constant"),
        ({"buffer_size": 10_000}, "--buffer-size is 10000: the run has .* would never move"),
        ({"buffer_size": 0}, "--buffer-size is 0: give a number above 0"),
        ({"weighting": "nova"}, "weighting is 'nova': give uniform or samples"),
        (
            {"strategy": "fedasync", "buffer_size": None, "weighting": "samples"},
            "--weighting is 'samples': it belongs to dsgd",
        ),
        ({"strategy": "fedasync"}, "--buffer-size is 3: it belongs to fedbuff"),
        (
            {"strategy": "dsgd", "buffer_size": None, "server_lr": None, "staleness": "constant"},
            "--staleness is 'constant': it belongs to fedbuff and fedasync, "
            "and --strategy is 'dsgd'",
        ),
        ({"strategy": "fedasync", "buffer_size": None, "server_lr": 1.5}, "server_lr is 1.5"),
    ],
)
def test_what_does_not_go_together_is_told(more: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        asynchronous("fedbuff", **more)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"temporal": 5}, "--temporal is 5"),
        ({"network": "compute=1s, server_up=1Mbit"}, "--network is .*neither server_up"),
    ],
)
def test_what_a_server_in_parts_does_not_go_with(more: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        asynchronous("sharded", **more)


def test_batchnorm_is_refused_before_any_work(make_task: Any, tmp_path: Path) -> None:
    norm = torch.nn.BatchNorm1d
    task = make_task(build=lambda: torch.nn.Sequential(torch.nn.Linear(6, 3), norm(3)))
    with pytest.raises(UsageError, match="--strategy is 'sharded.*': the model of task"):
        run(asynchronous("sharded", task=task.name, iterations=10), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_network_needs_another_run(tmp_path: Path) -> None:
    run(asynchronous("fedbuff", iterations=10), tmp_path)
    with pytest.raises(UsageError, match="is asynchronous: its clients"):
        priced(load(tmp_path), parse("4g"))
