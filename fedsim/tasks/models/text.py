"""Parts of all language models: the LSTM, windows of text, perplexity, clipped SGD.

The model is that of Zaremba et al., "Recurrent neural network regularization", 2014, as in the
TensorFlow tutorial `tutorials/rnn/ptb`, configuration "medium", which supplement C of Sattler et
al. 2018 names for both its language models. docs/tasks.md has what differs from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedsim.tasks.base import Task
from fedsim.tasks.models.dropout import Dropout
from strategies.client_optimizers import SGD

WINDOW = 35
"""Symbols a window (the tutorial's `num_steps`)."""


class Layer(nn.Module):
    """One LSTM layer over (T, B, inputs) from a zero state: (T, B, hidden).

    One bias per gate, as in the paper; `nn.LSTM` has two, of which only the sum matters, and each
    would be sent.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden, inputs))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(4 * hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (T, B, hidden) of inputs (T, B, inputs)."""
        zero = x.new_zeros(1, x.shape[1], self.hidden)
        weights = [self.weight_ih, self.weight_hh, self.bias, torch.zeros_like(self.bias)]
        outputs: Tensor = torch.lstm(
            x, (zero, zero), weights, True, 1, 0.0, self.training, False, False
        )[0]
        return outputs


class LanguageModel(nn.Module):
    """Symbols (B, T), int64 -> logits (B, T, symbols) of the symbols that follow them.

    An embedding as wide as the layers, two LSTM layers, a linear layer; dropout on the embedding
    and after each LSTM layer. Weights are uniform in +-`scale`, the LSTM's biases zero.

    Example:
        >>> sum(p.numel() for p in LanguageModel(10_000, 650, 0.5, 0.05).parameters())
        19775200
    """

    def __init__(self, symbols: int, hidden: int, drop: float, scale: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, hidden)
        self.layers = nn.ModuleList(Layer(hidden, hidden) for _ in range(2))
        self.dropouts = nn.ModuleList(Dropout(drop) for _ in range(3))
        self.output = nn.Linear(hidden, symbols)
        for name, parameter in self.named_parameters():
            if not name.startswith("layers") or parameter.dim() > 1:
                nn.init.uniform_(parameter, -scale, scale)

    def forward(self, symbols: Tensor) -> Tensor:
        """Logits (B, T, symbols), one row a position."""
        x = self.dropouts[0](self.embedding(symbols.t()))
        for layer, dropout in zip(self.layers, list(self.dropouts)[1:], strict=True):
            x = dropout(layer(x))
        logits: Tensor = self.output(x.transpose(0, 1))
        return logits


def token_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats per symbol of logits (B, T, symbols) against targets (B, T)."""
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def summed_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Sum over the samples of each one's mean loss per symbol, from which `perplexity` follows.

    Example:
        >>> total = summed_loss(torch.zeros(3, 5, 2), torch.zeros(3, 5, dtype=torch.int64))
        >>> round(perplexity(total.item() / 3), 4)
        2.0
    """
    return len(targets) * token_loss(outputs, targets)


def perplexity(loss: float) -> float:
    """The exponential of a mean loss in nats per symbol; of 100 where a loss is above that.

    So that a run that diverged ends with a number; a uniform guess has the size of the alphabet.

    Example:
        >>> round(perplexity(4.5), 2)
        90.02
    """
    return math.exp(min(loss, 100.0))


class ClippedSGD(SGD):
    """SGD on a loss that is a sum over `steps` symbols, its gradient clipped to the norm `clip`.

    The tutorial sums the loss over a window's symbols, and Table III's learning rate of 1.0 is
    meant so; fedsim's tasks report the mean. The gradient is multiplied by `steps` first.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, steps: int, clip: float
    ) -> None:
        super().__init__(parameters, lr=lr)
        self.steps, self.clip = steps, clip

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        parameters = [p for group in self.param_groups for p in group["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        for gradient in gradients:
            gradient.mul_(self.steps)
        nn.utils.clip_grad_norm_(parameters, self.clip)
        return super().step(closure)


def sgd(parameters: Iterable[nn.Parameter]) -> SGD:
    """Gradient descent with learning rate 1.0 (Table III), the gradient's norm at most 5.

    Each client clips its own gradient; the tutorial, which has one worker, clips the whole.
    """
    return ClippedSGD(parameters, lr=1.0, steps=WINDOW, clip=5.0)


def windows(symbols: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """A text as inputs and targets (N, length): windows in order, none overlaps another.

    Args:
        symbols: numbers (n,), int64; the first is context alone. The rest at the end, fewer than
            `length` symbols, is in no window.
        length: symbols a window.

    Example:
        >>> x, y = windows(torch.arange(8), 3)
        >>> x.tolist(), y.tolist()
        ([[0, 1, 2], [3, 4, 5]], [[1, 2, 3], [4, 5, 6]])
    """
    count = (len(symbols) - 1) // length
    x, y = symbols[: count * length], symbols[1 : count * length + 1]
    return x.view(count, length), y.view(count, length)


def decays(at: Iterable[int]) -> tuple[tuple[int, float], ...]:
    """Learning-rate steps: a factor of 0.8 (Table III) at each of the local iterations `at`.

    Example:
        >>> decays((5000, 8000))
        ((5000, 0.8), (8000, 0.64))
    """
    return tuple((iteration, round(0.8**n, 12)) for n, iteration in enumerate(at, 1))


def language_task(**options: Any) -> Task:
    """A `Task` with what both language models of Table III share; `own`: its other fields."""
    return Task(
        optimizer=sgd,
        loss=token_loss,
        metric=summed_loss,
        metric_name="perplexity",
        reported=perplexity,
        higher_is_better=False,
        batch_size=5,
        partition="contiguous",
        channels_last=False,
        **options,
    )
