"""MARINA trains the digits; a message is the difference of two gradients of one batch."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from compressors import Raw, decompress, derive, parse
from fedsim import RunConfig, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer
from strategies import MARINA, build
from tests.support import replaying
from tests.support.runs import payloads, small

SETTINGS = {
    "strategy": "marina",
    "temporal": 1,
    "iterations": 12,
    "momentum": 0.0,
    "keep_payloads": True,
}


def models(folder: Path, config: RunConfig) -> list[replaying.Weights]:
    """The model that every client was sent, round by round."""
    template = replaying.initial(config)
    downs = replaying.messages(folder, "*-down-*.bin")
    return [decompress(Raw(), next(iter(files.values())).read_bytes(), template) for files in downs]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As a run trains: sums of more threads have other last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_messages_are_differences_of_gradients_on_one_batch(tmp_path: Path) -> None:
    """Algorithm 1, every gradient computed again; then x - rate g with g kept by hand."""
    config = small(**SETTINGS, method="marina(float32, 0.3)")
    run(config, tmp_path)
    trainer = Trainer(config, ClientData.of(config))
    sent, g, dense = models(tmp_path, config), {}, []
    for number, ups in enumerate(replaying.uplinks(tmp_path, config)):
        dense.append(number == 0 or derive(config.seed, "dense", number + 1) < 0.3 * 2**32)
        for client, up in ups.items():
            want = trainer.train(client, sent[number], {}, number, 1).update
            if not dense[-1]:
                there = trainer.train(client, sent[number - 1], {}, number, 1).update
                want = {n: x - there[n] for n, x in want.items()}
            assert all(torch.equal(up[n], x) for n, x in want.items())
        mean = replaying.mean(ups)
        g = mean if dense[-1] else {n: g[n] + x for n, x in mean.items()}
        last = number + 1 == len(sent)
        after = load_file(tmp_path / "model.safetensors") if last else sent[number + 1]
        for n, x in sent[number].items():
            assert torch.allclose(after[n], x - trainer.base_lr[0] * g[n], atol=1e-6)
    assert any(dense[1:]) and not all(dense)


@pytest.mark.slow
def test_it_learns_with_fewer_bits(tmp_path: Path) -> None:
    config = small(**SETTINGS | {"iterations": 60}, method="marina(randk(0.2) | float32, 0.2)")
    summary = run(config, tmp_path).summary
    sizes = sorted({len(data) for name, data in payloads(tmp_path).items() if "-up" in name})
    assert len(sizes) == 2 and sizes[0] < 0.25 * sizes[1]
    assert summary["metric"] > 0.3  # ten classes, a tenth by chance


@pytest.mark.slow
def test_with_p_of_1_it_is_dense_gradients(tmp_path: Path) -> None:
    run(small(**SETTINGS, method="marina(cnat, 1)"), tmp_path / "marina")
    run(small(**SETTINGS | {"strategy": "gradients"}, method="raw"), tmp_path / "dense")
    one, other = (load_file(tmp_path / n / "model.safetensors") for n in ("marina", "dense"))
    assert all(torch.equal(one[n], other[n]) for n in other)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"cohort": 2}, "--cohort is 2 of 4 clients.*give 4"),
        ({"min_replies": 3}, "--min-replies is 3.*give 4"),
        ({"temporal": 2}, "--temporal is 2.*give 1"),
        ({"method": "raw"}, "--method is 'raw'.*give 'marina"),
        ({"strategy": "dsgd"}, "read by --strategy marina alone"),
        ({"strategy": "gradients"}, "read by --strategy marina alone"),
    ],
)
def test_it_is_refused_where_it_cannot_work(settings: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        small(**SETTINGS | {"method": "marina(cnat, 0.1)"} | settings)


def test_the_strategy_refuses_it_too() -> None:
    with pytest.raises(ValueError, match="uplink is raw.*give 'marina"):
        build(MARINA(), parse("raw"), clients=4)
    with pytest.raises(ValueError, match="cohort is 2.*give 4"):
        build(MARINA(), parse("marina(cnat, 0.1)"), clients=4, cohort=2)
