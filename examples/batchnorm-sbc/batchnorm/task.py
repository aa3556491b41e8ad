"""A convolutional network with BatchNorm, and each node's part of the data."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

TEST = 360


class Net(nn.Module):
    """Two convolutions of 3x3, each with BatchNorm, and a dense layer: 15,366 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 16, 20),
            nn.ReLU(),
            nn.Linear(20, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, 10) of images (B, 64)."""
        return self.layers(x.view(-1, 1, 8, 8))


def load(part: int, parts: int) -> tuple[Tensor, Tensor]:
    """Images (N, 64) and digits (N,) of one of several nodes; every sample is at one node."""
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x[:-TEST] / 16, dtype=torch.float32), torch.tensor(y[:-TEST])
    return x[part::parts], y[part::parts]


def train(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Two epochs of SGD; returns the last loss."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for index in torch.randperm(2 * len(x)).remainder(len(x)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def accuracy(model: nn.Module) -> float:
    """The share of the held-out digits that the model names."""
    model.eval()
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x[-TEST:] / 16, dtype=torch.float32), torch.tensor(y[-TEST:])
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())
