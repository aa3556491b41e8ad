"""Tasks from files that come by user: LEAF's FEMNIST and Shakespeare, and Stack Overflow.

Clients hold the users' own samples: `--partition natural`, the default, deals whole users to any
number of clients; with `--partition fixed` and as many clients as users, client i is user i.
Source: Caldas et al. 2018 (LEAF: a benchmark for federated settings); Reddi et al. 2021.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedsim.ground.errors import DataError, UsageError
from fedsim.tasks.base import Data, Task
from fedsim.tasks.data.users import Encoded, User, by_user, read_leaf, read_sentences
from fedsim.tasks.factories import path_of, task_of
from fedsim.tasks.models.leaf import CHARACTERS, NextCharacter, NextWord, femnist

PAD, UNKNOWN, BEGIN, END = range(4)
"""Symbols of Stack Overflow that are not words; the words of its vocabulary begin at 4."""

_WORDS = 4
LENGTH = 20  # words of a sentence, as in Reddi et al. 2021
_NUMBERS = {character: i for i, character in enumerate(CHARACTERS)}


def from_leaf(
    folder: str | os.PathLike[str],
    model: Callable[..., nn.Module],
    *,
    name: str,
    encode: Callable[[Sequence[Any], Sequence[Any]], Encoded],
    **fields: Any,
) -> Task:
    """A task from files that LEAF's `preprocess.sh` made.

    Args:
        folder: has the folders `train` and `test` with `*.json` (LEAF's `data/femnist/data`); from
            the current folder, else in `--data`.
        model: a function that makes a new model.
        name: of the task, as a results folder has it.
        encode: from a user's lists `x` and `y` to arrays of inputs (N, ...), float32 or int64, and
            of targets (N, ...).
        fields: as for `from_torch`; the default partition is "natural".

    Raises:
        UsageError: a field is unknown. A fault of the files is a `DataError` when the data
            are read.

    Example:
        >>> import numpy as np
        >>> def encode(x, y):
        ...     return np.array(x, np.float32), np.array(y)
        >>> from_leaf("synthetic", lambda: nn.Linear(60, 10), name="synthetic", encode=encode,
        ...     clients=30).partition
        'natural'
    """
    start = Path(folder).resolve()

    def read(data_folder: Path | None, classes: bool) -> Data:
        place = path_of(name, folder, start, data_folder)
        train, test = ([*read_leaf(name, place / role, encode)] for role in ("train", "test"))
        return by_user(name, f"LEAF, {start.name}", train, test, classes)

    options = {"partition": "natural"} | fields
    return task_of(name, model, read, options, [(os.fspath(folder), start)])


def leaf_femnist(
    folder: str | os.PathLike[str],
    model: Callable[..., nn.Module] = femnist,
    *,
    name: str = "leaf_femnist",
    **fields: Any,
) -> Task:
    """LEAF's FEMNIST: handwritten digits and letters of 62 classes by writer.

    Images are (1, 28, 28), float32 from 0 to 1, as in the files. Settings are LEAF's: SGD 0.004,
    batches of 10, accuracy.

    Args:
        folder: as for `from_leaf`.
        model: LEAF's CNN of 6,603,710 parameters, unless another is given.
        name: of the task.
        fields: as for `from_leaf`.

    Example:
        >>> leaf_femnist("leaf/data/femnist/data", clients=35).batch_size
        10
    """
    usual = {
        "optimizer": partial(torch.optim.SGD, lr=0.004),
        "batch_size": 10,
        "title": "LEAF's FEMNIST",
        "source": "Caldas et al. 2018 (LEAF)",
    }
    return from_leaf(folder, model, name=name, encode=encode_femnist, **(usual | fields))


def encode_femnist(x: Sequence[Any], y: Sequence[Any]) -> Encoded:
    """A writer's images (N, 1, 28, 28), float32, and classes (N,) from 0 to 61.

    Raises ``ValueError`` where an image has not 784 numbers, or a class is another.

    Example:
        >>> images, classes = encode_femnist([[1.0] * 784], [61])
        >>> images.shape, classes.tolist()
        ((1, 1, 28, 28), [61])
    """
    if odd := [len(image) for image in x if len(image) != 784]:
        raise ValueError(f"an image has {odd[0]} numbers; it has 784")
    classes = np.array(y)
    if classes.dtype.kind not in "iu" or classes.min() < 0 or classes.max() > 61:
        wrong = next(c for c in y if c not in range(62))
        raise ValueError(f"a class is {wrong!r}; classes are numbers from 0 to 61")
    return np.array(x, np.float32).reshape(-1, 1, 28, 28), classes.astype(np.int64)


def leaf_shakespeare(
    folder: str | os.PathLike[str],
    model: Callable[..., nn.Module] = NextCharacter,
    *,
    name: str = "leaf_shakespeare",
    **fields: Any,
) -> Task:
    """LEAF's Shakespeare: the character after 80 others, by role.

    Settings are LEAF's: SGD 0.8, batches of 10, accuracy.

    Args:
        folder: as for `from_leaf`.
        model: LEAF's stacked LSTM of 817,872 parameters, unless another is given; (B, 80) int64 ->
            logits (B, 80).
        name: of the task.
        fields: as for `from_leaf`.

    Example:
        >>> leaf_shakespeare("leaf/data/shakespeare/data", clients=10).partition
        'natural'
    """
    usual = {
        "optimizer": partial(torch.optim.SGD, lr=0.8),
        "batch_size": 10,
        "channels_last": False,
        "title": "LEAF's Shakespeare",
        "source": "Caldas et al. 2018 (LEAF)",
    }
    return from_leaf(folder, model, name=name, encode=encode_shakespeare, **(usual | fields))


def encode_shakespeare(x: Sequence[Any], y: Sequence[Any]) -> Encoded:
    r"""A role's characters (N, 80) and those that follow (N,), by their place among LEAF's 80.

    A character that is not among them has the number of the last one, as in LEAF.

    Raises ``ValueError`` where a text has not 80 characters, or a target not one.

    Example:
        >>> text, after = encode_shakespeare(["\n" * 79 + "!"], ["}"])
        >>> text[0, -3:].tolist(), after.tolist()
        ([0, 0, 2], [79])
    """
    if odd := [len(text) for text in x if len(text) != 80]:
        raise ValueError(f"a text has {odd[0]} characters; it has 80")
    if wrong := [text for text in y if len(text) != 1]:
        raise ValueError(f"a target is {wrong[0]!r}; it is one character")
    last = len(CHARACTERS) - 1
    numbers = [[_NUMBERS.get(c, last) for c in text] for text in x]
    return np.array(numbers, np.int64), np.array([_NUMBERS.get(c, last) for c in y], np.int64)


def stack_overflow(
    train: str | os.PathLike[str],
    test: str | os.PathLike[str],
    model: Callable[[int], nn.Module] = NextWord,
    *,
    name: str = "stackoverflow",
    words: str | os.PathLike[str] | None = None,
    vocabulary: int = 10_000,
    users: int | None = None,
    test_users: int | None = None,
    **fields: Any,
) -> Task:
    """Stack Overflow: the next word of sentences, by user, from TensorFlow Federated's HDF5 files.

    Needs h5py (`pip install 'fedsim-lab[hdf5]'`). As in Reddi et al. 2021, a sample is a sentence
    of at most 20 words with its begin and end, targets are the words that follow, and accuracy
    counts words of the vocabulary alone. Symbols: 0 fills up, 1 is another word, 2 begins, 3 ends;
    words are numbered from 4, the most frequent first.

    Args:
        train: `stackoverflow_train.h5`; from the current folder, else in `--data`.
        test: `stackoverflow_test.h5`, the same.
        model: from the number of symbols to a new model, int64 (B, 20) -> logits (B, 20, symbols).
        name: of the task.
        words: a file with a line `WORD COUNT` for each word, most frequent first
            (`stackoverflow.word_count`), found the same way; None: the words of the users that are
            read.
        vocabulary: how many words are known.
        users: how many users are read, in the order of their names; None: all 342,477.
        test_users: the same, of the held-out ones.
        fields: as for `from_leaf`.

    Raises:
        UsageError: a number of words or users is not above 0, or a field is unknown.

    Example:
        >>> stack_overflow("so/train.h5", "so/test.h5", users=100, clients=100).batch_size
        16
    """
    counts = {"vocabulary": vocabulary, "users": users, "test_users": test_users}
    for setting, number in counts.items():
        if number is not None and (not isinstance(number, int) or number < 1):
            raise UsageError(f"task {name}: {setting} is {number!r}; give a whole number from 1")
    paths = [train, test, *([] if words is None else [words])]
    files = [(os.fspath(file), Path(file).resolve()) for file in paths]

    def read(folder: Path | None, classes: bool) -> Data:
        places = [path_of(name, file, start, folder) for file, start in files]
        first = [*read_sentences(name, places[0], users)]
        second = [*read_sentences(name, places[1], test_users)]
        if words is None:
            frequencies = Counter(w for _, texts in first for text in texts for w in text.split())
            lexicon = [
                w for w, _ in sorted(frequencies.items(), key=lambda item: (-item[1], item[0]))
            ]
        else:
            lexicon = _listed(name, places[2])
        number = {word: i for i, word in enumerate(lexicon[:vocabulary], _WORDS)}
        held, scored = (
            [_encoded(user, texts, number) for user, texts in part if texts]
            for part in (first, second)
        )
        return by_user(name, "Stack Overflow", held, scored, classes)

    usual = {
        "optimizer": partial(torch.optim.SGD, lr=10**-0.5),
        "loss": word_loss,
        "metric": word_hits,
        "reported": word_accuracy,
        "partition": "natural",
        "batch_size": 16,
        "channels_last": False,
        "evaluation_batch": 100,
        "title": "Stack Overflow, next word",
        "source": "Reddi et al. 2021 (Adaptive federated optimization)",
    }
    build = partial(model, vocabulary + _WORDS)
    return task_of(name, build, read, usual | fields, files)


def _listed(task: str, file: Path) -> list[str]:
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    if odd := [line for line in lines if len(line) != 2 or not line[1].isdigit()]:
        raise DataError(f"task {task}: {file}: a line is {' '.join(odd[0])!r}; give WORD COUNT")
    return [word for word, _ in lines]


def _encoded(user: str, texts: Sequence[str], number: dict[str, int]) -> User:
    rows = np.full((len(texts), LENGTH + 1), PAD, np.int64)
    for row, text in zip(rows, texts, strict=True):
        words = [number.get(word, UNKNOWN) for word in text.split()[:LENGTH]]
        symbols = [BEGIN, *words, END][: LENGTH + 1]
        row[: len(symbols)] = symbols
    return User(user, rows[:, :-1], rows[:, 1:])


def word_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats per symbol that does not fill up, a scalar."""
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=PAD)


def word_hits(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """How many words of the vocabulary are guessed, and how many there are.

    Example:
        >>> logits = torch.zeros(1, 3, 6).index_fill(2, torch.tensor([5]), 1.0)
        >>> {k: int(x) for k, x in word_hits(logits, torch.tensor([[5, 4, 3]])).items()}
        {'hits': 1, 'words': 2}
    """
    counted = targets >= _WORDS
    hits = (outputs.argmax(2) == targets) & counted
    return {"hits": hits.sum(), "words": counted.sum()}


def word_accuracy(means: dict[str, float]) -> dict[str, float]:
    """Hits by words.

    Example:
        >>> word_accuracy({"hits": 1.0, "words": 4.0})
        {'accuracy': 0.25}
    """
    return {"accuracy": means["hits"] / means["words"] if means["words"] else 0.0}
