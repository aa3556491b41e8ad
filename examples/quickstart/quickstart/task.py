"""The model, and each node's part of the data."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

TEST = 360


class Net(nn.Module):
    """Two dense layers: 64 pixels to ten digits, 16,210 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 216), nn.ReLU(), nn.Linear(216, 10))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, 10) of images (B, 64)."""
        return self.layers(x)


def load(part: int, parts: int) -> tuple[Tensor, Tensor]:
    """Images (N, 64) and digits (N,) of one of several nodes; every sample is at one node."""
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x[:-TEST] / 16, dtype=torch.float32), torch.tensor(y[:-TEST])
    return x[part::parts], y[part::parts]


def train(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Two epochs of SGD; returns the last loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for index in torch.randperm(2 * len(x)).remainder(len(x)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def accuracy(model: nn.Module) -> float:
    """The share of the held-out digits that the model names."""
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x[-TEST:] / 16, dtype=torch.float32), torch.tensor(y[-TEST:])
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())
