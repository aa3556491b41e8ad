"""`char_transformer`: a pre-trained decoder of characters. Clients fine-tune all of it, or adapters
of low rank that are added to its frozen layers.

The base is trained on the first half of Shakespeare's text by `docs/make_transformer.py`, once, and
comes with fedsim. Clients hold the other half, except its end, which is held out as in `char_lstm`.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fedsim.ground.errors import DataError, UsageError
from fedsim.tasks.base import Data, Task
from fedsim.tasks.chars import SHAKESPEARE, TEST_CHARACTERS, roles
from fedsim.tasks.data import textfiles
from fedsim.tasks.data.memo import read_once
from fedsim.tasks.models.text import language_task, windows
from fedsim.tasks.models.transformer import CONTEXT, Decoder, adapt
from fedsim.tasks.tasklist import about

SYMBOLS = 97  # another character, the end of a line, the 95 that ASCII prints
RANK = 4
SCALE = 2.0  # alpha / rank, for every rank
_BASE = Path(__file__).with_name("char_transformer_base.json")


def encode_text(text: str) -> Tensor:
    """A text as numbers (n,), int64: 1 for the end of a line, 2 to 96 for ASCII, 0 for the rest.

    Example:
        >>> encode_text("a b\\né").tolist()
        [67, 2, 68, 1, 0]
    """
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
    printed = np.where((points >= 32) & (points < 127), points - 30, 0)
    return torch.from_numpy(np.where(points == 10, 1, printed))


def halves(folder: Path | None) -> tuple[str, str, str]:
    """The half that the base is trained on, the half of the clients, and which text it is.

    Raises:
        DataError: the file is missing, damaged, or its second half not longer than what is held
            out.
    """
    (path,) = textfiles.first_present("char_transformer", folder, [(SHAKESPEARE,)])
    text, digest = textfiles.decode_file("char_transformer", path)
    middle = len(text) // 2
    if len(text) - middle < TEST_CHARACTERS + CONTEXT + 1:
        raise DataError(
            f"task char_transformer: {path} has {len(text):,} characters.\nIts second half takes "
            f"more than the {TEST_CHARACTERS:,} that are held out."
        )
    source = f"{Path(SHAKESPEARE).name}, {len(text):,} characters, sha256 {digest}"
    return text[:middle], text[middle:], source


@read_once
def load_halves(folder: Path | None, download: bool) -> Data:
    """The second half of the complete works, the last 105,675 characters held out.

    Samples are windows of 64 characters, (·, 64). A training window is labelled by the role that
    speaks where it begins.

    Args:
        folder: holds `shakespeare/shakespeare_complete.txt`, plain or as .gz; None means
            `$FEDSIM_DATA`.
        download: not used.
    """
    _, text, source = halves(folder)
    numbers = encode_text(text)
    x, y = windows(numbers[:-TEST_CHARACTERS], CONTEXT)
    test = windows(numbers[-TEST_CHARACTERS - 1 :], CONTEXT)
    source = f"{source}, the second half, the last {TEST_CHARACTERS:,} held out"
    return Data(x, y, *test, source, roles(text, len(x), CONTEXT))


@lru_cache(maxsize=1)
def base() -> dict[str, Tensor]:
    """The weights of the pre-trained decoder, by name, float32."""
    packed = json.loads(_BASE.read_text(encoding="utf-8"))
    return {
        name: torch.from_numpy(
            np.frombuffer(base64.b64decode(w["float16"]), dtype="<f2").astype(np.float32)
        ).view(w["shape"])
        for name, w in packed.items()
    }


def build_transformer(rank: int = 0, train_a: bool = True) -> nn.Module:
    """The pre-trained decoder; with a rank, frozen, with adapters of that rank in its blocks.

    The adapters' start is drawn from torch's global generator.

    Example:
        >>> sum(p.numel() for p in build_transformer().parameters() if p.requires_grad)
        116096
        >>> sum(p.numel() for p in build_transformer(4).parameters() if p.requires_grad)
        9216
        >>> model = build_transformer(4, train_a=False)
        >>> sum(p.numel() for p in model.parameters() if p.requires_grad)
        4608
    """
    model = Decoder(SYMBOLS)
    model.load_state_dict(base())
    return adapt(model, rank, SCALE, train_a) if rank else model


def lora(name: str, rank: int, train_a: bool = True, lr: float | None = None) -> Task:
    """`char_transformer` with adapters of another rank, or trained at another rate.

    Args:
        name: of the task.
        rank: of the adapters.
        train_a: True: both matrices of an adapter are trained and averaged (FedIT); False: `a`
            stays at its start and `b` is trained (FFA-LoRA).
        lr: Adam's; None: that of `char_transformer_fedit` or `char_transformer_ffa`.

    Example:
        >>> lora("wide", rank=16).model(None)(torch.zeros(1, 8, dtype=torch.int64)).shape
        torch.Size([1, 8, 97])
    """
    if not isinstance(rank, int) or not 1 <= rank <= 64:
        raise UsageError(f"task {name}: rank is {rank!r}; it is a whole number from 1 to 64")
    template = CHAR_TRANSFORMER_FEDIT if train_a else CHAR_TRANSFORMER_FFA
    task = replace(template, name=name, build=partial(build_transformer, rank, train_a))
    return task if lr is None else replace(task, optimizer=partial(torch.optim.Adam, lr=lr))


CHAR_TRANSFORMER = replace(
    language_task(
        **about("char_transformer"), build=build_transformer, load=load_halves, iterations=1000
    ),
    optimizer=partial(torch.optim.Adam, lr=0.001),
    batch_size=8,
)
CHAR_TRANSFORMER_FEDIT = replace(
    CHAR_TRANSFORMER,
    **about("char_transformer_fedit"),
    build=partial(build_transformer, RANK),
    optimizer=partial(torch.optim.Adam, lr=0.003),
)
CHAR_TRANSFORMER_FFA = replace(
    CHAR_TRANSFORMER_FEDIT,
    **about("char_transformer_ffa"),
    build=partial(build_transformer, RANK, train_a=False),
)
