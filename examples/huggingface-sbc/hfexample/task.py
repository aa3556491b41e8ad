"""A small BERT without pretraining, and sentences about films that need no download."""

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification

GOOD = ["great", "lovely", "moving", "funny", "superb", "warm", "clever", "gripping"]
BAD = ["dull", "awful", "slow", "flat", "stupid", "cold", "noisy", "boring"]
OTHER = ["the", "film", "was", "and", "its", "story", "acting", "music", "a", "bit", "rather"]
WORDS = ["[PAD]", "[CLS]", *GOOD, *BAD, *OTHER]
LENGTH, SAMPLES, TEST = 12, 1200, 300


class Net(nn.Module):
    """Two layers of 64 with two heads: 74,114 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = BertForSequenceClassification(
            BertConfig(
                vocab_size=len(WORDS),
                hidden_size=64,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=128,
                max_position_embeddings=LENGTH,
                num_labels=2,
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, 2) of sentences (B, 12)."""
        return self.bert(input_ids=x, attention_mask=(x > 0).long()).logits


def _sentences() -> tuple[Tensor, Tensor]:
    """Sentences as numbers of words, and whether each has more good words than bad ones.

    Every sentence begins with [CLS], whose place BERT judges.
    """
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(2, len(WORDS), (SAMPLES + TEST, LENGTH), generator=draw)
    good = (x < 2 + len(GOOD)).sum(1)
    bad = ((x >= 2 + len(GOOD)) & (x < 2 + len(GOOD) + len(BAD))).sum(1)
    x[:, 0] = WORDS.index("[CLS]")
    return x, (good > bad).long()


def load(part: int, parts: int) -> tuple[Tensor, Tensor]:
    """Sentences (N, 12) and labels (N,) of one of several nodes; every one is at one node."""
    x, y = _sentences()
    return x[:SAMPLES][part::parts], y[:SAMPLES][part::parts]


def train(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Two epochs of Adam; returns the last loss."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for index in torch.randperm(2 * len(x)).remainder(len(x)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def accuracy(model: nn.Module) -> float:
    """The share of the held-out sentences that the model judges right."""
    model.eval()
    x, y = _sentences()
    with torch.no_grad():
        return float((model(x[SAMPLES:]).argmax(1) == y[SAMPLES:]).float().mean())
