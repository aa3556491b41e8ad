"""Pytrees of tensors: what a batch is, and what a model is called with.

A pytree is a leaf (a tensor, as a rule), or a tuple, a list or a mapping of pytrees. Functions
return a mapping as a dict, a list as a tuple, a named tuple as a named tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from compressors.kernels.gpu.layout import send

Tree = Any
"""A leaf, or a tuple, a list or a mapping of pytrees."""


def map_leaves(change: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """The tree of what ``change`` makes of each leaf, with the leaves of ``others`` in its place.

    Example:
        >>> map_leaves(lambda x: x + 1, {"a": 1, "b": (2, 3)})
        {'a': 2, 'b': (3, 4)}
        >>> map_leaves(lambda x, y: x + y, (1, 2), (10, 20))
        (11, 22)
    """
    if isinstance(tree, Tensor):
        return change(tree, *others)
    if isinstance(tree, Mapping):
        if any(not isinstance(x, Mapping) or x.keys() != tree.keys() for x in others):
            names = ", ".join(map(str, tree))
            raise ValueError(f"one tree has the entries {names}, another one others")
        return {k: map_leaves(change, x, *(o[k] for o in others)) for k, x in tree.items()}
    if isinstance(tree, tuple | list):
        if any(not isinstance(x, tuple | list) or len(x) != len(tree) for x in others):
            raise ValueError(f"one tree has {len(tree)} entries, another one another number")
        children = [map_leaves(change, *entries) for entries in zip(tree, *others, strict=True)]
        plain = isinstance(tree, list) or type(tree) is tuple
        return tuple(children) if plain else type(tree)(*children)
    return change(tree, *others)


def named_leaves(tree: Tree) -> list[tuple[str, Any]]:
    """Every leaf and where it is, in order; a lone leaf is at "".

    Example:
        >>> named_leaves({"ids": 1, "masks": (2, 3)})
        [("['ids']", 1), ("['masks'][0]", 2), ("['masks'][1]", 3)]
    """
    if isinstance(tree, Mapping):
        entries = [(k, x) for k, x in tree.items()]
    elif isinstance(tree, tuple | list):
        entries = [*enumerate(tree)]
    else:
        return [("", tree)]
    return [(f"[{key!r}]{path}", leaf) for key, x in entries for path, leaf in named_leaves(x)]


def leaves(tree: Tree) -> list[Any]:
    """Every leaf, in order.

    Example:
        >>> leaves({"ids": 1, "masks": (2, 3)})
        [1, 2, 3]
    """
    return [tree] if isinstance(tree, Tensor) else [leaf for _, leaf in named_leaves(tree)]


def count_samples(tree: Tree) -> int:
    """The length of the first leaf; every leaf has as many samples.

    Example:
        >>> count_samples({"ids": torch.zeros(5, 3), "masks": torch.zeros(5)})
        5
    """
    return len(leaves(tree)[0])


def take(tree: Tree, index: Any) -> Tree:
    """The samples ``index`` (B,) of every leaf (N, ...), a tree of (B, ...).

    Example:
        >>> take((torch.arange(4), torch.arange(4) * 10), torch.tensor([3, 1]))
        (tensor([3, 1]), tensor([30, 10]))
    """
    if isinstance(tree, Tensor):
        return tree[index]
    return map_leaves(lambda leaf: leaf[index], tree)


def stack(trees: Sequence[Tree]) -> Tree:
    """One tree of all: each tensor is stacked along a new first axis, (K, ...).

    Raises:
        ValueError: the trees have other entries; RuntimeError: or tensors of other shapes.

    Example:
        >>> stack([{"x": torch.tensor([1, 2])}, {"x": torch.tensor([3, 4])}])["x"].shape
        torch.Size([2, 2])
    """
    first, *others = trees
    if isinstance(first, Tensor):
        return torch.stack([*trees])
    return map_leaves(lambda *x: torch.stack(x), first, *others)


def to_device(tree: Tree, device: torch.device, layout: torch.memory_format | None = None) -> Tree:
    """The tree with its tensors on ``device``; other leaves stay."""
    if not isinstance(tree, Tensor):
        if not isinstance(tree, Mapping | tuple | list):
            return tree
        return map_leaves(lambda leaf: to_device(leaf, device, layout), tree)
    x = tree if tree.device == device else send(tree, device)
    return x if layout is None or x.dim() != 4 else x.contiguous(memory_format=layout)


def arguments(inputs: Tree) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a model's call: positional ones, and those by name.

    Example:
        >>> arguments({"input_ids": 1, "attention_mask": 2})
        ((), {'input_ids': 1, 'attention_mask': 2})
        >>> arguments((1, 2)), arguments(torch.tensor(1))
        (((1, 2), {}), ((tensor(1),), {}))
    """
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)), {}


def call_text(inputs: Tree) -> str:
    """How a model is called with ``inputs``, for messages.

    Example:
        >>> call_text(torch.zeros(1)), call_text((1, 2)), call_text({"a": 1})
        ('model(x)', 'model(*x)', 'model(**x)')
    """
    args, named = arguments(inputs)
    several = isinstance(inputs, tuple | list)
    return "model(**x)" if named or not args else "model(*x)" if several else "model(x)"


def forward(model: nn.Module, inputs: Tree) -> Any:
    """``model(**inputs)`` of a mapping, ``model(*inputs)`` of a tuple or list, else ``model(x)``.

    Example:
        >>> forward(nn.Bilinear(2, 3, 1), (torch.zeros(5, 2), torch.zeros(5, 3))).shape
        torch.Size([5, 1])
    """
    if isinstance(inputs, Tensor):
        return model(inputs)
    args, named = arguments(inputs)
    return model(*args, **named)


def shapes_text(tree: Tree) -> str:
    """Types and shapes of the leaves, for messages.

    Example:
        >>> shapes_text({"ids": torch.zeros(2, 3), "names": "a"})
        "['ids'] torch.float32 (2, 3), ['names'] str"
        >>> shapes_text(torch.zeros(2, 3))
        'torch.float32 (2, 3)'
    """
    kinds = (
        (path, f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__)
        for path, x in named_leaves(tree)
    )
    return ", ".join(f"{path} {kind}".strip() for path, kind in kinds)
