"""The vision tasks: published counts and settings, and models that are what they say."""

from typing import Any

import pytest
import torch
from torch import nn

from fedsim.tasks import get_task
from fedsim.tasks.mlp import mlp
from fedsim.tasks.models.cifar import Shortcut

COUNTS = {
    "mnist_mlp4096": 36_818_954, "mnist_mlp4096_ln": 36_843_530,
    "mnist_mlp512": 932_362, "mnist_mlp512_ln": 935_434,
    "mnist_mlp128_ln": 135_562,
    # He et al. 2016, Table 6 (rounded); the first is printed by Gajjala et al. and DeepReduce
    "cifar_resnet20": 269_722, "cifar_resnet32": 464_154, "cifar_resnet44": 658_586,
    "cifar_resnet56": 853_018, "cifar_resnet110": 1_727_962,
    "cifar_resnet18": 11_173_962, "cifar_vgg11": 9_231_114,
    "cifar_vgg16": 14_728_266,  # Gajjala et al. 2020, Table 2
    "cifar_alexnet": 1_756_682,
    "cifar_densenet40": 357_491,  # DeepReduce, Table 1
    "imagenet_resnet50": 25_557_032,  # both
}  # fmt: skip
CIFAR = [name for name in COUNTS if name.startswith("cifar")]


def build(name: str) -> nn.Module:
    """Without numbers: shapes alone."""
    with torch.device("meta"):
        return get_task(name).model(None)


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_parameter_counts(name: str, count: int) -> None:
    assert sum(p.numel() for p in build(name).parameters()) == count
    assert f"{count:,}" in get_task(name).title


@pytest.mark.parametrize("depth", [20, 32, 44, 56, 110])
def test_a_resnet_is_as_deep_as_its_name(depth: int) -> None:
    layers = [m for m in build(f"cifar_resnet{depth}").modules()
              if isinstance(m, nn.Conv2d | nn.Linear)]  # fmt: skip
    assert len(layers) == depth  # option A: no convolution in a shortcut
    assert sum(isinstance(m, Shortcut) for m in build(f"cifar_resnet{depth}").modules()) == 2


@pytest.mark.parametrize("name", CIFAR)
def test_cifar_models_tell_classes_apart(name: str) -> None:
    model = build(name)
    outputs = model(torch.empty(2, 3, 32, 32, device="meta"))
    assert outputs.shape == (2, 11 if name == "cifar_densenet40" else 10)
    assert any(isinstance(m, nn.BatchNorm2d) for m in model.modules())


def test_the_shortcut_by_hand() -> None:
    x = torch.arange(32.0).view(1, 2, 4, 4)
    y = Shortcut(2)(x)
    assert y.shape == (1, 4, 2, 2)
    assert not y[:, 0].any() and not y[:, 3].any()
    assert y[0, 1].tolist() == [[0, 2], [8, 10]] and y[0, 2].tolist() == [[16, 18], [24, 26]]


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_mlp_by_hand(layer_norm: bool) -> None:
    model = mlp(5, layer_norm)
    linear = [m for m in model if isinstance(m, nn.Linear)]
    x = torch.randn(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    y = x.reshape(3, 784)
    for layer in linear[:3]:
        y = y @ layer.weight.T + layer.bias
        if layer_norm:
            spread = y.var(1, unbiased=False, keepdim=True)
            y = (y - y.mean(1, keepdim=True)) / (spread + 1e-5).sqrt()
        y = y.clamp(min=0)
    torch.testing.assert_close(model(x), y @ linear[3].weight.T + linear[3].bias)


SETTINGS: dict[str, tuple[Any, ...]] = {
    "mnist_mlp4096": ("Adagrad", 40, 7_500, {"lr": 0.005}, ()),
    "cifar_resnet32": (
        "SGD", 128, 60_000, {"lr": 0.01, "momentum": 0.9, "weight_decay": 2e-4},
        ((30_000, 0.1), (50_000, 0.01)),
    ),
    "cifar_resnet20": (
        "SGD", 32, 64_000, {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4},
        ((32_000, 0.1), (48_000, 0.01)),
    ),
    "imagenet_resnet50": (
        "SGD", 32, 700_000, {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4},
        ((300_000, 0.1), (600_000, 0.01)),
    ),
    "cifar_densenet40": (
        "SGD", 16, 234_300, {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4},
        ((117_150, 0.1), (175_725, 0.01)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), SETTINGS.items(), ids=SETTINGS)
def test_published_settings(name: str, expected: tuple[Any, ...]) -> None:
    kind, batch_size, iterations, group, lr_steps = expected
    task = get_task(name)
    optimizer = task.optimizer([nn.Parameter(torch.zeros(1))])
    assert type(optimizer).__name__ == kind
    assert {key: optimizer.param_groups[0][key] for key in group} == group
    assert (task.batch_size, task.iterations, task.lr_steps) == (batch_size, iterations, lr_steps)
    assert task.clients == 4


def rate(name: str, iteration: int) -> float:
    task = get_task(name)
    base = task.optimizer([nn.Parameter(torch.zeros(1))]).param_groups[0]["lr"]
    factors = [factor for start, factor in task.lr_steps if start <= iteration]
    return base * factors[-1] if factors else base


def test_warm_ups() -> None:
    assert [rate("cifar_resnet110", i) for i in (0, 399, 400, 32_000, 48_000)] == pytest.approx(
        [0.01, 0.01, 0.1, 0.01, 0.001]
    )
    grown = [rate("cifar_vgg16", 78 * epoch) for epoch in range(7)]
    assert grown == pytest.approx([0.5 / 32, 0.5 / 16, 0.5 / 8, 0.5 / 4, 0.5 / 2, 0.5, 0.5])
