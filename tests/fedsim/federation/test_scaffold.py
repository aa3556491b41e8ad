"""SCAFFOLD: what of it is charged, and which downlinks it takes."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from compressors import Raw, parse
from compressors.whole.memory import unnest
from fedsim import Federation, run
from fedsim.tasks.models.text import ClippedSGD
from strategies import Scaffold, Setup, build
from strategies.algorithms.requirements import plain_sgd
from strategies.client_optimizers import SGD
from tests.support.runs import rounds, small


def test_both_ways_are_compressed_and_charged(tmp_path: Path) -> None:
    """Messages hold twice the tensors; with raw sending they have twice the bits."""
    settings: dict[str, Any] = {"momentum": 0, "lr": 0.05, "partition": "dirichlet(0.5)"}
    for name, more in (("dsgd", {}), ("scaffold", {"strategy": "scaffold"})):
        run(small(method="raw", **settings, **more), tmp_path / name)
    one, other = rounds(tmp_path / "dsgd"), rounds(tmp_path / "scaffold")
    for column in ("up_content_bits", "down_content_bits", "up_sent"):
        assert (other[column] == 2 * one[column]).all()
    assert other["metric"].iloc[-1] > 0.5
    shares = [
        json.loads((tmp_path / n / "summary.json").read_text())["up_share"]
        for n in ("dsgd", "scaffold")
    ]
    assert shares == [1, 1]


def test_downlinks_that_send_all_sooner_or_later_are_taken() -> None:
    """The uplink may leave out what it does: c moves by what was decoded, and so does c_i."""
    for down in ("raw", "float32", "sbc(0.1)", "ef(cnat)", "by_name('*.bias', raw, '*', sbc(0.1))"):
        small(method="cnat", strategy="scaffold", momentum=0, downlink=down)
    for down in ("cnat", "fragments(raw, 2)", "fragments(sbc(0.1), 2)"):
        with pytest.raises(ValueError, match=r"downlink is .*(cnat|fragments).*give raw"):
            build(Scaffold(), Raw(), parse(down), clients=2)


@pytest.mark.parametrize("method", ["cnat", "fragments(sbc(0.1), 2)"])
def test_the_server_has_the_mean_of_the_clients_variates(method: str) -> None:
    """Of what no later message brings, a client's variate moves by what was decoded."""
    config = small(method=method, strategy="scaffold", momentum=0, lr=0.05)
    with Federation(config) as federation:
        while not federation.done:
            federation.round()
        memory = federation.state().memory
    weights = unnest("weights", memory.server)
    for name in (name for name in weights if f"control/{name}" in weights):
        own = sum(state[f"rule/own/{name}"] for state in memory.clients.values())
        torch.testing.assert_close(weights[f"control/{name}"], own / config.plan.clients)


def test_an_sgd_whose_step_scales_gradients_is_refused() -> None:
    """The variates would be of its steps, 35 times the gradients that they are added to."""
    weights = [torch.nn.Parameter(torch.ones(1))]
    scaled = partial(ClippedSGD, weights, lr=0.1, steps=35, clip=5.0)
    unmet = plain_sgd(Scaffold(), Setup(Raw(), Raw(), optimizer=scaled))
    assert unmet is not None and "ClippedSGD" in unmet.reason
    upwards = Setup(Raw(), Raw(), optimizer=partial(SGD, weights, lr=0.1, maximize=True))
    assert plain_sgd(Scaffold(), upwards) is not None
    for kind in (torch.optim.SGD, SGD):
        kind(weights, lr=0.1)  # torch wraps the step of a class that is used
        setup = Setup(Raw(), Raw(), optimizer=partial(kind, weights, lr=0.1))
        assert plain_sgd(Scaffold(), setup) is None
