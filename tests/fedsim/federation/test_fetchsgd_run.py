"""FetchSGD trains the digits; its server's steps are made again from the stored messages."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from compressors import parse
from compressors.contrib.count_sketch import CountSketch
from compressors.message import contents
from fedsim import run
from strategies import FetchSGD, build
from strategies.channel import client_end
from tests.support import replaying
from tests.support.runs import small

FETCH = {
    "strategy": "fetchsgd",
    "method": "fetchsgd(0.003, 5, 1600)",
    "momentum": 0.0,
}


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


def test_a_message_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three clients, two rounds: a client looks for what its sketch holds; the server, in the sum
    alone. Its reading of a client's first message is tried once a sender."""
    found, read, tried = [], [], []
    unsketch, table = CountSketch.unsketch, CountSketch.read_table
    check = client_end.check_decoded
    monkeypatch.setattr(CountSketch, "unsketch", lambda *a: found.append(0) or unsketch(*a))
    monkeypatch.setattr(CountSketch, "read_table", lambda *a: read.append(0) or table(*a))
    monkeypatch.setattr(client_end, "check_decoded", lambda *a: tried.append(0) or check(*a))
    run(small(**FETCH, clients=3, iterations=20, temporal=10), tmp_path)
    assert len(found) == 3 * 2 + 2 + len(tried) and len(read) == 3 * 2 + len(tried)
    assert not (tmp_path / "layers.parquet").exists()  # no entries travel


def test_the_strategy_refuses_it_too() -> None:
    with pytest.raises(ValueError, match="uplink is .*give 'fetchsgd"):
        build(FetchSGD(), parse("raw"), clients=2)
    with pytest.raises(ValueError, match="momentum is 1"):
        FetchSGD(momentum=1.0)
