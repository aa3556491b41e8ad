"""`word_lstm`: WikiText-2 or the Penn Treebank, word by word, with the settings of Table III of
Sattler et al. 2018 (Sparse Binary Compression): see docs/tasks.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data
from fedsim.tasks.data import textfiles
from fedsim.tasks.data.memo import read_once
from fedsim.tasks.models.text import WINDOW, LanguageModel, decays, language_task, windows
from fedsim.tasks.tasklist import about

WORDS = 10_000
TEST_ROW = 10 * WINDOW  # words per row of held-out text
UNKNOWN, END = "<unk>", "<eos>"
TEXT_FILES = [
    ("ptb/ptb.train.txt", "ptb/ptb.test.txt"),
    ("wikitext-2/train.txt", "wikitext-2/test.txt"),
]
"""Training and held-out text; the first pair that is there is read."""


def build_word_lstm() -> nn.Module:
    """A new model of 10,000 words: 19,775,200 parameters, as the tutorial's "medium"."""
    return LanguageModel(WORDS, hidden=650, drop=0.5, scale=0.05)


@read_once
def load_texts(folder: Path | None, download: bool) -> Data:
    """A training text and the test text of the same set, words numbered by frequency.

    Training samples are windows of 35 words, held-out ones rows of 350; both (·, length). The rest
    of the test text, fewer than 350 words, is not scored.

    Args:
        folder: holds `ptb/ptb.train.txt` and `ptb/ptb.test.txt` (Mikolov's files), or
            `wikitext-2/train.txt` and `test.txt`, plain or as .gz; None means `$FEDSIM_DATA`.
        download: not used.

    Raises:
        DataError: neither pair is there, or a file is damaged or too short.
    """
    paths = textfiles.first_present("word_lstm", folder, TEXT_FILES)
    (train, digest), (test, other) = (textfiles.decode_file("word_lstm", path) for path in paths)
    texts = [tokens(train), [END, *tokens(test)]]  # the first word follows the end of a line
    for path, words, least in zip(paths, texts, (WINDOW, TEST_ROW), strict=True):
        if len(words) <= least:
            raise DataError(
                f"task word_lstm: {path} has {len(words)} words.\nThe task takes more than {least}."
            )
    numbers = vocabulary(texts[0])
    encoded = [encode_words(words, numbers) for words in texts]
    missed = int((encoded[1] == numbers[UNKNOWN]).sum())
    source = (
        f"{paths[0].parent.name}, {len(texts[0]):,} training words, {len(numbers):,} distinct, "
        f"{missed / len(texts[1]):.1%} of the test {UNKNOWN}, sha256 {digest} and {other}"
    )
    return Data(*windows(encoded[0], WINDOW), *windows(encoded[1], TEST_ROW), source)


def tokens(text: str) -> list[str]:
    """The words of a text split by spaces, and `<eos>` at the end of every line.

    Example:
        >>> tokens(" the cat \\n sat ")
        ['the', 'cat', '<eos>', 'sat', '<eos>']
    """
    return [word for line in text.splitlines() for word in (*line.split(), END)]


def vocabulary(words: Iterable[str], size: int = WORDS) -> dict[str, int]:
    """The numbers of the most frequent words, `<unk>` and `<eos>` among them for any count of
    theirs.

    By frequency downwards, equals by alphabet, as the tutorial orders them. The Penn Treebank's
    files have exactly 10,000 words in this sense; of other texts 9,998 and those two.

    Example:
        >>> vocabulary(["b", "a", "a", "c", "c", "c"], size=4)
        {'c': 0, 'a': 1, '<eos>': 2, '<unk>': 3}
    """
    counts = Counter(words)
    special = {UNKNOWN: counts.pop(UNKNOWN, 0), END: counts.pop(END, 0)}
    ranked = sorted(counts.items(), key=_rank)
    return {
        word: number
        for number, (word, _) in enumerate(
            sorted([*ranked[: size - len(special)], *special.items()], key=_rank)
        )
    }


def _rank(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]


def encode_words(words: list[str], numbers: dict[str, int]) -> Tensor:
    """The numbers (n,), int64, of words; unknown words count as `<unk>`."""
    unknown = numbers[UNKNOWN]
    return torch.tensor([numbers.get(word, unknown) for word in words])


WORD_LSTM = language_task(
    **about("word_lstm"),
    build=build_word_lstm,
    load=load_texts,
    iterations=60_000,
    lr_steps=decays(range(24_000, 60_000, 1200)),
    evaluation_batch=10,
)
