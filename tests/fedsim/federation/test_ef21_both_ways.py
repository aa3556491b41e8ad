"""EF21-BC: differences up and down. Every message is played back by the paper's own lines."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from compressors import Raw, decompress
from fedsim import RunConfig, run
from tests.support import replaying
from tests.support.replaying import Weights
from tests.support.runs import rounds, small

BOTH = {
    "strategy": "ef21",
    "method": "ef21(topk(0.1) | float32)",
    "downlink": "ef21(topk(0.2) | float32)",
}


def kept(x: torch.Tensor, p: float) -> torch.Tensor:
    """The fraction p of largest magnitude, by torch alone."""
    flat = torch.zeros(x.numel())
    chosen = x.flatten().abs().topk(max(1, round(p * x.numel()))).indices
    flat[chosen] = x.flatten()[chosen]
    return flat.view(x.shape)


def by_the_paper(folder: Path, config: RunConfig) -> list[tuple[Weights, Weights]]:
    """Model and direction g before every round and at the end, from the uplinks alone.

    EF21-BC: the sum over clients and n is g~; b = C(g~ - g), g = g + b, x = x + g (updates hold
    their step size).
    """
    x = replaying.initial(config)
    total = {n: torch.zeros_like(v) for n, v in x.items()}
    g, seen = dict(total), [(x, total)]
    for ups in replaying.uplinks(folder, config):
        for client in sorted(ups):
            total = {n: v + ups[client][n] for n, v in total.items()}
        mean = {n: v / config.plan.clients for n, v in total.items()}
        g = {n: v + kept(mean[n] - v, 0.2) for n, v in g.items()}
        x = {n: v + g[n] for n, v in x.items()}
        seen.append((x, g))
    return seen


@pytest.mark.parametrize(
    "some",
    [{}, {"clients": 5, "cohort": 2}, {"clients": 5, "cohort": 2, "catch_up": True}],
    ids=["all", "cohort", "catch-up"],
)
def test_it_is_the_papers_algorithm_and_learns(tmp_path: Path, some: dict[str, int]) -> None:
    config = small(**BOTH, **some, keep_payloads=True, iterations=40)
    summary = run(config, tmp_path).summary
    seen = by_the_paper(tmp_path, config)
    final = dict(sorted(load_file(tmp_path / "model.safetensors").items()))
    assert all(torch.allclose(x, seen[-1][0][n], atol=1e-6) for n, x in final.items())
    assert summary["metric"] > 0.3  # ten classes, a tenth by chance
    kinds = set()
    for number, files in enumerate(replaying.messages(tmp_path, "*-down-*.bin")):
        for file in files.values():
            kinds.add(file.name.split("-down-")[1])
            if number and "-model" in file.name:  # the direction comes with it
                x, g = seen[number]
                template = {**x, **{f"direction/{n}": v for n, v in g.items()}}
                came = decompress(Raw(), file.read_bytes(), template)
                assert all(torch.allclose(v, template[n], atol=1e-6) for n, v in came.items())
    assert ("model.bin" in kinds) == ("cohort" in some)
    assert ("updates.bin" in kinds) == ("catch_up" in some)


def test_it_sends_less_down_than_a_model(tmp_path: Path) -> None:
    run(small(**BOTH), tmp_path / "both")
    run(small(method=BOTH["method"], strategy="ef21"), tmp_path / "up")
    both, up = (rounds(tmp_path / name)["down_wire_bits"].sum() for name in ("both", "up"))
    assert both < 0.4 * up


def test_without_loss_down_it_is_ef21(tmp_path: Path) -> None:
    """A direction that nothing is left out of is the mean itself, up to rounding."""
    one = {"strategy": "ef21", "method": BOTH["method"]}
    run(small(**one, downlink="ef21(float32)"), tmp_path / "both")
    run(small(**one), tmp_path / "up")
    both, up = (load_file(tmp_path / n / "model.safetensors") for n in ("both", "up"))
    assert all(torch.allclose(both[n], up[n], atol=1e-5) for n in up)
