"""A small encoder with the call of Hugging Face's, and sentences as a tokenizer makes them."""

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

WORDS, LENGTH = 20, 12


class Sentences(Dataset[dict[str, Any]]):
    """Rows ``input_ids``, ``attention_mask`` and ``labels``: more good words than bad ones.

    Args:
        count: how many.
        padded: whether all have one length.
    """

    def __init__(self, count: int = 120, padded: bool = True) -> None:
        self.count, self.padded = count, padded

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        draw = torch.Generator().manual_seed(index)
        length = int(torch.randint(4, LENGTH + 1, (), generator=draw))
        ids = torch.randint(1, WORDS, (length,), generator=draw)
        label = int((ids < 8).sum() > (ids >= 13).sum())
        if self.padded:
            ids = nn.functional.pad(ids, (0, LENGTH - length))
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": label}


def padded(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    """A batch, each sentence as long as the longest: what a data collator makes."""
    made = {
        name: nn.utils.rnn.pad_sequence([row[name] for row in rows], batch_first=True)
        for name in ("input_ids", "attention_mask")
    }
    return made | {"labels": torch.tensor([row["labels"] for row in rows])}


class Output(OrderedDict[str, Tensor]):
    """A mapping with attributes, as Hugging Face's ``ModelOutput``."""

    @property
    def logits(self) -> Tensor:
        return self["logits"]


class Encoder(nn.Module):
    """One layer of 16 with two heads; the mean of what the mask leaves decides."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 16), nn.Embedding(LENGTH, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Output:
        x = self.words(input_ids) + self.places.weight[: input_ids.shape[1]]
        x = self.layer(x, src_key_padding_mask=attention_mask == 0)
        mask = attention_mask[..., None]
        return Output(logits=self.head((x * mask).sum(1) / mask.sum(1)))
