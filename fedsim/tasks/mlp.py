"""MNIST with three fully connected hidden layers, as Aji & Heafield 2017 train it."""

from dataclasses import replace
from functools import partial

from torch import nn
from torch.optim import Adagrad

from fedsim.tasks.base import Task, correct, cross_entropy
from fedsim.tasks.lenet import load_mnist
from fedsim.tasks.tasklist import about


def mlp(width: int, layer_norm: bool = False) -> nn.Module:
    """Three hidden layers: images (B, 1, 28, 28) -> logits (B, 10).

    Args:
        width: units of each hidden layer. At 4096, 36,818,954 parameters (the paper prints 4069
            and names Dryden et al. 2016, who have 4096, as identical); at 512, 932,362.
        layer_norm: normalises the input of each ReLU (Ba et al. 2016); 6 x width more parameters.

    The paper does not name the nonlinearity: ReLU. Weights are PyTorch's default.

    Example:
        >>> sum(p.numel() for p in mlp(512, layer_norm=True).parameters())
        935434
    """
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs in (28 * 28, width, width):
        layers.append(nn.Linear(inputs, width))
        layers += [nn.LayerNorm(width), nn.ReLU()] if layer_norm else [nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


MNIST_MLP4096 = Task(
    **about("mnist_mlp4096"),
    build=partial(mlp, 4096),
    load=load_mnist,
    optimizer=partial(Adagrad, lr=0.005),
    loss=cross_entropy,
    metric=correct,
    batch_size=40,
    iterations=7500,  # 20 epochs of 60,000 images at 4 x 40 per iteration
    channels_last=False,
)
MNIST_MLP4096_LN, MNIST_MLP512, MNIST_MLP512_LN, MNIST_MLP128_LN = (
    replace(MNIST_MLP4096, **about(name), build=partial(mlp, width, layer_norm))
    for name, width, layer_norm in (
        ("mnist_mlp4096_ln", 4096, True),
        ("mnist_mlp512", 512, False),
        ("mnist_mlp512_ln", 512, True),
        ("mnist_mlp128_ln", 128, True),
    )
)
