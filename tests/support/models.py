"""Models of the tests."""

from torch import nn


def normed() -> nn.Module:
    """4 means and 4 variances that travel, a count of batches that does not."""
    return nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3))
