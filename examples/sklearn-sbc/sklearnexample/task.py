"""Logistic regression on random Fourier features, and each node's part of the data."""

import warnings
from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression

FEATURES, DIGITS, TEST = 1000, 10, 360
Arrays = list[NDArray[np.float64]]


def initial() -> Arrays:
    """The model to begin with: 10,010 numbers, all 0."""
    return [np.zeros((DIGITS, FEATURES)), np.zeros(DIGITS)]


def model_of(arrays: Arrays) -> LogisticRegression:
    """A classifier with these coefficients and intercepts, which goes on from them."""
    model = LogisticRegression(max_iter=1, warm_start=True)
    model.coef_, model.intercept_ = arrays
    model.classes_ = np.arange(DIGITS)
    return model


@cache
def load(part: int, parts: int) -> tuple[Arrays, Arrays]:
    """Features and digits of one of several nodes: to train on, and the last fifth to test."""
    x, y = load_digits(return_X_y=True)
    features = RBFSampler(gamma=0.5, n_components=FEATURES, random_state=0)
    x, y = features.fit_transform(x[part::parts] / 16), y[part::parts]
    cut = len(x) - TEST // parts
    return [x[:cut], y[:cut]], [x[cut:], y[cut:]]


def train(arrays: Arrays, x: NDArray[np.float64], y: NDArray[np.float64]) -> Arrays:
    """The model after one iteration of the solver."""
    model = model_of(arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, y)
    return [model.coef_, model.intercept_]
