"""MNIST with the two networks of McMahan et al. 2017 (federated averaging), section 3."""

from dataclasses import replace
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from fedsim.tasks.base import Task, correct, cross_entropy
from fedsim.tasks.lenet import load_mnist
from fedsim.tasks.tasklist import about


def two_hidden_layers(width: int = 200) -> nn.Module:
    """The paper's 2NN: images (B, 1, 28, 28) -> logits (B, 10), two hidden layers of ReLUs.

    Args:
        width: units of each hidden layer; at 200, as printed, 199,210 parameters.

    Weights are PyTorch's default; the paper names no initialization.

    Example:
        >>> sum(p.numel() for p in two_hidden_layers().parameters())
        199210
    """
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(28 * 28, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 10),
    )


class MnistCNN(nn.Module):
    """The paper's CNN: images (B, 1, 28, 28) -> logits (B, 10); 1,663,370 parameters.

    Convolution 32@5x5, max-pool 2, ReLU, convolution 64@5x5, max-pool 2, ReLU, linear 512, ReLU,
    linear 10. Convolutions pad by 2, which the printed number of parameters implies. Pooling first
    is the same function as the ReLU first, at less cost. Weights are PyTorch's default.

    Example:
        >>> sum(p.numel() for p in MnistCNN().parameters())
        1663370
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(64 * 7 * 7, 512)
        self.fc2 = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, 10) of images (B, 1, 28, 28), contiguous or channels-last."""
        for conv in (self.conv1, self.conv2):
            x = F.relu(F.max_pool2d(conv(x), 2))
        logits: Tensor = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return logits


MNIST_2NN = Task(
    **about("mnist_2nn"),
    build=two_hidden_layers,
    load=load_mnist,
    optimizer=partial(SGD, lr=0.1),
    loss=cross_entropy,
    metric=correct,
    batch_size=10,
    iterations=6000,
    channels_last=False,
)
MNIST_CNN = replace(MNIST_2NN, **about("mnist_cnn"), build=MnistCNN, channels_last=True)
