"""Operations of a local iteration: by hand, beside PyTorch's own counter, and what has no rule."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from fedsim import Data, RunConfig, Task, UsageError, run
from fedsim.federation.flops import FlopCount, is_heavy
from fedsim.network.spec import parse


class Recurrent(nn.Module):
    """A fused LSTM, whose kernel nobody has a rule for on a CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.top = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        """The last state's logits."""
        return self.top(self.lstm(x)[0][:, -1])


def load(folder: Path | None, download: bool) -> Data:
    x, y = torch.randn(20, 3, 4), torch.arange(20) % 2
    return Data(x, y, x[:4], y[:4], "made up")


def optimizer(parameters: object) -> torch.optim.SGD:
    return torch.optim.SGD(parameters, lr=0.1)  # type: ignore[arg-type]


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.argmax(dim=1) == targets).sum()


TASK = Task(
    "fused",
    Recurrent,
    load,
    optimizer,
    nn.functional.cross_entropy,
    correct,
    batch_size=2,
    channels_last=False,
    clients=2,
)


def test_a_model_with_convolutions_counts_as_by_pytorch() -> None:
    """A convolution of 3 x 3 by hand: 2 x 3 x 9 x 4 x 36 of each sample's forward pass."""
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 5),
        nn.GELU(),
    )
    x = torch.randn(2, 3, 8, 8)
    with FlopCount() as forward:
        outputs = model(x)
    assert forward.flops == 2 * (2 * 3 * 9 * 4 * 36 + 2 * 36 * 5) and not forward.unknown
    with FlopCount() as backward:
        outputs.sum().backward()
    with FlopCounterMode(display=False) as theirs:
        model(x).sum().backward()
    assert forward.flops + backward.flops == theirs.get_total_flops()


def test_what_has_no_rule_is_named(tmp_path: Path) -> None:
    """And runs with the number that is given."""
    network = "4g, compute=1MFLOP/s"
    config = RunConfig(task=TASK, method="raw", temporal=1, iterations=2, network=network)
    with pytest.raises(UsageError, match=r"fused.*aten\.mkldnn_rnn_layer.*flops=0\.3GFLOP"):
        run(config, tmp_path / "counted", progress=False)
    given = config.but(network=f"{network}, flops=2MFLOP")
    rows = run(given, tmp_path / "given", progress=False).rounds
    assert rows["sim_compute_seconds"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "name",
    [
        "mkldnn_rnn_layer",
        "_cudnn_rnn",
        "_thnn_fused_lstm_cell",
        "mv",
        "_trilinear",
        "_scaled_dot_product_fused_attention_overrideable",
        "_fft_r2c",
        "conv_tbc",
    ],
)
def test_heavy_operators(name: str) -> None:
    assert is_heavy("aten", name)


@pytest.mark.parametrize(
    "name",
    [
        "relu",
        "native_batch_norm",
        "max_pool2d_with_indices",
        "upsample_bilinear2d",
        "sum",
        "linalg_vector_norm",
        "_to_copy",
        "embedding_dense_backward",
        "add_",
    ],
)
def test_operators_of_a_few_operations_per_entry(name: str) -> None:
    assert not is_heavy("aten", name) and is_heavy("mine", name)


def test_every_client_has_its_own_rate_and_energy() -> None:
    """They follow from the seed, each from its own draws."""
    text = "compute=lognormal(2GFLOP/s, 0.5), flops=1GFLOP, energy_compute=2W"
    links, same = parse(text).links(3, 5, 0.0), parse(f"up=1Mbit, {text}").links(3, 5, 0.0)
    assert len({*links.compute}) == 3 and links.compute.tolist() == same.compute.tolist()
    assert parse(text).energy(3, 5).iteration.tolist() == (2 * links.compute).tolist()
    drawn = [parse(f"{text}, battery={x}(1J, 2J)").energy(3, 5).battery for x in ["uniform"] * 2]
    assert drawn[0].tolist() == drawn[1].tolist() and len({*drawn[0]}) == 3
