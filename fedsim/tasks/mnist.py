"""The tasks on MNIST and Fashion-MNIST, with the settings of their papers (docs/tasks.md)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adagrad

from fedsim.tasks.base import Data, Task, correct, cross_entropy
from fedsim.tasks.data import idx
from fedsim.tasks.data.memo import read_once
from fedsim.tasks.tasklist import about
from strategies.client_optimizers import Adam

# Mean and standard deviation of the training pixels divided by 255: the values in common use.
_SCALE = {"MNIST": (0.1307, 0.3081), "FashionMNIST": (0.2860, 0.3530)}


class LeNet5(nn.Module):
    """LeNet5-Caffe: images (B, 1, 28, 28) -> logits (B, 10); 431,080 parameters.

    Convolution 20@5x5, max-pool 2, ReLU, convolution 50@5x5, max-pool 2, ReLU, linear 500, ReLU,
    linear 10. Pooling first is the same function as the ReLU first, at less cost. Weights are
    drawn from torch's global generator, as PyTorch's layers draw them.

    Args:
        conv_relu: a ReLU after each pooling, as the compression literature trains this network;
            the Caffe example has none there.
        caffe_init: weights of Caffe's `xavier` filler: uniform in +-sqrt(3 / fan_in), biases zero
            (PyTorch's function of that name averages fan_in and fan_out).
        channels: of the convolutions.
        padding: of the convolutions.
        hidden: units of the linear layer before the last.
        classes: units of the last linear layer.

    Source: BVLC/caffe, examples/mnist/lenet_train_test.prototxt, which supplement C of Sattler et
    al. 2018 (Sparse Binary Compression) names as its model.

    Example:
        >>> sum(p.numel() for p in LeNet5().parameters())
        431080
    """

    def __init__(
        self,
        conv_relu: bool = True,
        caffe_init: bool = False,
        channels: tuple[int, int] = (20, 50),
        padding: int = 0,
        hidden: int = 500,
        classes: int = 10,
    ) -> None:
        super().__init__()
        self.conv_relu = conv_relu
        self.conv1 = nn.Conv2d(1, channels[0], 5, padding=padding)
        self.conv2 = nn.Conv2d(*channels, 5, padding=padding)
        side = ((28 - 4 + 2 * padding) // 2 - 4 + 2 * padding) // 2
        self.fc1 = nn.Linear(channels[1] * side**2, hidden)
        self.fc2 = nn.Linear(hidden, classes)
        if caffe_init:
            for layer in (self.conv1, self.conv2, self.fc1, self.fc2):
                nn.init.kaiming_uniform_(layer.weight, nonlinearity="linear")
                assert layer.bias is not None
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, classes) of images (B, 1, 28, 28), contiguous or channels-last."""
        for conv in (self.conv1, self.conv2):
            x = F.max_pool2d(conv(x), 2)
            if self.conv_relu:
                x = F.relu(x)
        logits: Tensor = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return logits


def mlp(width: int, layer_norm: bool = False, depth: int = 3) -> nn.Module:
    """Hidden layers of ReLUs: images (B, 1, 28, 28) -> logits (B, 10).

    Args:
        width: units of each hidden layer. At 4096, 36,818,954 parameters (the paper prints 4069
            and names Dryden et al. 2016, who have 4096, as identical); at 512, 932,362.
        layer_norm: normalises the input of each ReLU (Ba et al. 2016); 6 x width more parameters.
        depth: hidden layers; two of 200 units are McMahan et al.'s 2NN of 199,210 parameters.

    Aji & Heafield do not name the nonlinearity: ReLU. Weights are PyTorch's default; McMahan et al.
    name no initialization either.

    Example:
        >>> sum(p.numel() for p in mlp(512, layer_norm=True).parameters())
        935434
    """
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs in (28 * 28, *[width] * (depth - 1)):
        layers.append(nn.Linear(inputs, width))
        layers += [nn.LayerNorm(width), nn.ReLU()] if layer_norm else [nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


@read_once
def load_mnist(folder: Path | None, download: bool) -> Data:
    """MNIST: 60,000 training and 10,000 test images (·, 1, 28, 28).

    Pixels are divided by 255, less 0.1307, over 0.3081 (the paper names no scaling).
    """
    return _load("MNIST", folder, download)


@read_once
def load_fashion(folder: Path | None, download: bool) -> Data:
    """Fashion-MNIST, sizes as MNIST; pixels are divided by 255, less 0.2860, over 0.3530."""
    return _load("FashionMNIST", folder, download)


def _load(name: str, folder: Path | None, download: bool) -> Data:
    arrays, source = idx.read_idx(name, folder, download)
    mean, std = _SCALE[name]
    train_x, test_x = (
        torch.from_numpy(x.astype(np.float32))[:, None].div_(255).sub_(mean).div_(std)
        for x in arrays[::2]
    )
    train_y, test_y = (torch.from_numpy(y.astype(np.int64)) for y in arrays[1::2])
    return Data(train_x, train_y, test_x, test_y, source)


MNIST_LENET5 = Task(
    **about("mnist_lenet5"),
    build=LeNet5,
    load=load_mnist,
    optimizer=partial(Adam, lr=0.001),
    loss=cross_entropy,
    metric=correct,
    batch_size=128,
    iterations=2000,
)
MNIST_LENET5_CAFFE = replace(
    MNIST_LENET5,
    **about("mnist_lenet5_caffe"),
    build=partial(LeNet5, conv_relu=False, caffe_init=True),
)
FASHION_LENET5 = replace(MNIST_LENET5, **about("fashion_lenet5"), load=load_fashion)
MNIST_MLP4096 = replace(
    MNIST_LENET5,
    **about("mnist_mlp4096"),
    build=partial(mlp, 4096),
    optimizer=partial(Adagrad, lr=0.005),
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
MNIST_2NN = replace(
    MNIST_MLP4096,
    **about("mnist_2nn"),
    build=partial(mlp, 200, depth=2),
    optimizer=partial(SGD, lr=0.1),
    batch_size=10,
    iterations=6000,
)
MNIST_CNN = replace(
    MNIST_2NN,
    **about("mnist_cnn"),
    # Padding by 2 is what the printed number of parameters implies.
    build=partial(LeNet5, channels=(32, 64), padding=2, hidden=512),
    channels_last=True,
)
