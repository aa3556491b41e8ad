"""FetchSGD trains the digits; its server's steps are made again from the stored messages."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from compressors.message import contents
from fedsim import run
from tests.support import replaying
from tests.support.runs import small

FETCH = {"strategy": "fetchsgd", "method": "fetchsgd(0.003, 5, 1600)", "momentum": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize("some", [{}, {"clients": 5, "cohort": 2}], ids=["all", "cohort"])
def test_it_learns_by_the_papers_algorithm(tmp_path: Path, some: dict[str, int]) -> None:
    """Algorithm 1: S_u = 0.9 S_u + S, S_e = S_e + S_u, the step is its top k, S_e loses that."""
    config = small(**FETCH, **some, keep_payloads=True, iterations=80)
    summary = run(config, tmp_path).summary
    weights, method = replaying.initial(config), config.plan.method.compressor
    codec, n = method.codec, sum(x.numel() for x in weights.values())
    momentum = error = torch.zeros(5, 1600)
    for files in replaying.messages(tmp_path, "*-up.bin"):
        tables = [codec.read_table(contents(method, f.read_bytes())) for f in files.values()]
        momentum = 0.9 * momentum + sum(tables) / len(tables)
        error = error + momentum
        estimates = codec.estimates(error, n).numpy()
        step = np.zeros(n, np.float32)
        kept = np.argsort(-abs(estimates), kind="stable")[: round(0.003 * n)]
        step[kept] = estimates[kept]
        error = error - codec.sketch(torch.from_numpy(step))
        start = 0
        for name, x in weights.items():
            part = step[start : start + x.numel()].reshape(x.shape)
            weights[name], start = x + torch.from_numpy(part), start + x.numel()
    final = load_file(tmp_path / "model.safetensors")
    assert all(torch.allclose(x, final[name], atol=1e-4) for name, x in weights.items())
    assert summary["metric"] > 0.3  # ten classes, a tenth by chance
