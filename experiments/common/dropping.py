"""Gradient dropping of Aji & Heafield 2017: what is dropped, and clients that send gradients.

The paper drops entries of gradients, and the server's AdaGrad takes what is left. So clients
take one step of plain SGD of rate ``GAIN``, and their update is ``-GAIN`` times the gradient; the
server is Flower's FedAdagrad. That adds 0.001 to the root of the sum of squares where torch's
AdaGrad adds 1e-10: ``GAIN`` makes it the same in units of the gradient.
"""

from dataclasses import replace
from functools import partial

from torch.optim import SGD

from experiments.common.models import WordLSTM
from fedsim.tasks import Task, get_task

GAIN = 1e7


def sends_gradients(task: Task) -> Task:
    """The task ``NAME_gradients``, whose clients send gradients in one step."""
    return replace(task, name=f"{task.name}_gradients", optimizer=partial(SGD, lr=GAIN))


def drop(p: float, scope: str = "model") -> str:
    """The method that keeps a fraction ``p`` of the model's entries, or of each tensor's."""
    return f"gradient_dropping({p:g}, {scope})"


def quantized(value: str, bits: int) -> str:
    """The method that keeps 1 % of the model's entries, in ``bits`` bits of magnitude."""
    return f"ef(flat(topk(0.01) | magnitude({value}, {bits}) | golomb))"


WORDS, WORDS_NORM = (
    sends_gradients(
        replace(
            get_task("word_lstm"),
            name=f"word_lstm128{'_ln' * norm}",
            title=f"WikiText-2, LSTM 2 x 128, 10,000 words{', layer normalization' * norm}",
            build=partial(WordLSTM, 128, 0.1, norm),
        )
    )
    for norm in (False, True)
)
"""Words of WikiText-2 by two layers of 128 units, without layer normalization and with it."""
