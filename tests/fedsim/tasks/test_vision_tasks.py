"""The vision tasks: models that are what they say."""

import pytest
import torch
from torch import nn

from fedsim.tasks import get_task
from fedsim.tasks.mnist import mlp
from fedsim.tasks.models.cifar import Shortcut
from fedsim.tasks.tasklist import LISTED


def build(name: str) -> nn.Module:
    """Without numbers: shapes alone."""
    with torch.device("meta"):
        return get_task(name).model(None)


@pytest.mark.parametrize("depth", [8, 20, 32, 44, 56, 110])
def test_a_resnet_is_as_deep_as_its_name(depth: int) -> None:
    model = build(f"cifar_resnet{depth}")
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == depth  # option A: no convolution in a shortcut
    assert sum(isinstance(m, Shortcut) for m in model.modules()) == 2
    assert layers[0](torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 16, 32, 32)


@pytest.mark.parametrize("name", [name for name in LISTED if name.startswith("cifar_")])
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
