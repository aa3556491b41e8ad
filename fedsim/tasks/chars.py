"""`char_lstm`: Shakespeare, character by character, with the settings of Table III of Sattler et
al. 2018 (Sparse Binary Compression): see docs/tasks.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data
from fedsim.tasks.data import textfiles
from fedsim.tasks.data.memo import read_once
from fedsim.tasks.models.text import WINDOW, LanguageModel, decays, language_task, windows
from fedsim.tasks.tasklist import about

TEST_CHARACTERS = 105_675  # characters, as many as the paper tests on
ROW = 1409  # 75 rows of this length are exactly the held-out text
HIDDEN, DROP, SCALE = 200, 0.0, 0.1
SHAKESPEARE = "shakespeare/shakespeare_complete.txt"
_ROLE = re.compile(r"^([A-Z][A-Z' -]*)\.$", re.MULTILINE)


def build_char_lstm(data: Data) -> nn.Module:
    """A new model for the alphabet of `data`: 675,284 parameters for its 84 characters.

    For the 98 characters of the paper's text it would have 680,898.
    """
    symbols = 1 + max(int(part.max()) for part in (data.train_y, data.test_y))
    return LanguageModel(symbols, HIDDEN, DROP, SCALE)


@read_once
def load_shakespeare(folder: Path | None, download: bool) -> Data:
    """The complete works, the last 105,675 characters held out; an alphabet taken from the text.

    Training samples are windows of 35 characters, held-out ones rows of 1,409; both (·, length).
    A training window is labelled by the role that speaks where it begins.

    Args:
        folder: holds `shakespeare/shakespeare_complete.txt`, plain or as .gz; None means
            `$FEDSIM_DATA`.
        download: not used.

    Raises:
        DataError: the file is missing, damaged, or not longer than what is held out.
    """
    (path,) = textfiles.first_present("char_lstm", folder, [(SHAKESPEARE,)])
    text, digest = textfiles.decode_file("char_lstm", path)
    if len(text) < TEST_CHARACTERS + WINDOW + 1:
        raise DataError(
            f"task char_lstm: {path} has {len(text):,} characters.\nIt takes more than the "
            f"{TEST_CHARACTERS:,} that are held out."
        )
    numbers, symbols = encode_characters(text)
    train, test = numbers[:-TEST_CHARACTERS], numbers[-TEST_CHARACTERS - 1 :]
    source = (
        f"{Path(SHAKESPEARE).name}, {len(text):,} characters, {symbols} distinct, the last "
        f"{TEST_CHARACTERS:,} held out, sha256 {digest}"
    )
    x, y = windows(train, WINDOW)
    return Data(x, y, *windows(test, ROW), source, roles(text, len(x), WINDOW))


def roles(text: str, count: int, length: int) -> Tensor:
    r"""Who speaks where each window begins: the number of a role, (count,), int64.

    A role's name is in capitals on a line of its own, with a full stop. Roles of one name are one,
    in all plays; the text before the first name has a number too.

    Example:
        >>> roles("Act I. \n\nROMEO.\nBut soft!\n\nJULIET.\nAy me!", 4, 9).tolist()
        [0, 2, 2, 1]
    """
    speakers = [(match.start(), match[1]) for match in _ROLE.finditer(text)]
    starts = np.array([0, *(start for start, _ in speakers)])
    _, numbers = np.unique(["", *(name for _, name in speakers)], return_inverse=True)
    at = np.searchsorted(starts, np.arange(count) * length, side="right") - 1
    return torch.from_numpy(numbers[at].astype(np.int64))


def encode_characters(text: str) -> tuple[Tensor, int]:
    """A text as numbers (n,), int64, and how many distinct characters it has.

    Characters are numbered by code point.

    Example:
        >>> numbers, symbols = encode_characters("banana")
        >>> numbers.tolist(), symbols
        ([1, 0, 2, 0, 2, 0], 3)
    """
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    alphabet, numbers = np.unique(points, return_inverse=True)
    return torch.from_numpy(numbers.astype(np.int64)), len(alphabet)


CHAR_LSTM = language_task(
    **about("char_lstm"),
    build=build_char_lstm,
    from_data=True,
    load=load_shakespeare,
    iterations=16_000,
    lr_steps=decays((5000, 8000, 10_000, 12_000, 14_000)),
    evaluation_batch=25,
)
