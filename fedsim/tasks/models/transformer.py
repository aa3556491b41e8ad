"""A small decoder of characters with attention, and low-rank adapters for its linear layers."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONTEXT = 64
"""Characters that a position sees at most, itself among them: the length of a window."""


class Attention(nn.Module):
    """Causal self-attention over (B, T, width), `heads` at once; projections without biases."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, width); position t sees positions 0 to t."""
        split = (*x.shape[:2], self.heads, -1)
        q, k, v = (
            layer(x).view(split).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed: Tensor = self.output(context.transpose(1, 2).reshape(x.shape))
        return mixed


class Block(nn.Module):
    """Attention, then two layers with GELU between, each added to what came in (pre-norm)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, width)."""
        x = x + self.attention(self.norm1(x))
        added: Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return added


class Decoder(nn.Module):
    """Symbols (B, T), int64, T up to `CONTEXT` -> logits (B, T, symbols) of what follows them.

    Weights of linear layers and embeddings are normal with deviation 0.02, biases zero.

    Source: Radford et al., "Language models are unsupervised multitask learners", 2019 (GPT-2),
    with an output layer of its own.

    Example:
        >>> sum(p.numel() for p in Decoder(97).parameters())
        116096
    """

    def __init__(self, symbols: int, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.position = nn.Parameter(torch.empty(CONTEXT, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, symbols, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, symbols: Tensor) -> Tensor:
        """Logits (B, T, symbols), one row per position."""
        x = self.embedding(symbols) + self.position[: symbols.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.output(self.norm(x))
        return logits


class Adapted(nn.Module):
    """A linear layer that is frozen, plus `scale` times a trained product `b a`.

    `a` (rank, inputs) starts as torch starts a linear layer, `b` (outputs, rank) at zero: the layer
    is what it was until it is trained.

    Args:
        linear: the layer; its parameters are frozen.
        rank: of the product.
        scale: what the product is multiplied by (alpha / rank in the paper).
        train_a: whether `a` is trained too; else it is frozen at its start.

    Source: Hu et al., "LoRA: low-rank adaptation of large language models", 2021, section 4.1.

    Example:
        >>> layer = Adapted(nn.Linear(64, 256), rank=4, scale=2.0)
        >>> [name for name, p in layer.named_parameters() if p.requires_grad]
        ['a', 'b']
    """

    def __init__(self, linear: nn.Linear, rank: int, scale: float, train_a: bool = True) -> None:
        super().__init__()
        self.linear, self.scale = linear.requires_grad_(False), scale
        self.a = nn.Parameter(torch.empty(rank, linear.in_features), requires_grad=train_a)
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) -> (..., outputs)."""
        low_rank: Tensor = F.linear(F.linear(x, self.a), self.b)
        y: Tensor = self.linear(x) + self.scale * low_rank
        return y


def adapt(model: nn.Module, rank: int, scale: float, train_a: bool = True) -> nn.Module:
    """`model` with adapters on the linear layers of its blocks, all else frozen; the same object.

    Example:
        >>> model = adapt(Decoder(97), rank=4, scale=2.0)
        >>> sum(p.numel() for p in model.parameters() if p.requires_grad)
        9216
    """
    model.requires_grad_(False)
    blocks = model.get_submodule("blocks")
    for name, layer in [*blocks.named_modules()]:
        if isinstance(layer, nn.Linear):
            blocks.set_submodule(name, Adapted(layer, rank, scale, train_a))
    return model
