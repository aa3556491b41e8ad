"""SGD, Adam and AdamW with steps of their own: parameters and memory are torch's, bit for bit."""

import subprocess
import sys
from itertools import product
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, optim
from torch.nn import Parameter
from torch.optim import Optimizer

from strategies import client_optimizers
from strategies.client_optimizers import load_optimizer_state, optimizer_state, settings_of
from tests.support.markdown import ROOT

KINDS = ("SGD", "Adam", "AdamW")
WAYS = ("foreach", "differentiable", "tensor", "closure")
SHAPES = [(), (1,), (3,), (17,), (5, 7), (64, 33), (4, 3, 3, 3), (0,), (1025,)]


def settings(kind: str, draw: Random) -> dict[str, Any]:
    lr, decay = draw.choice([0.5, 0.02, 1e-3]), draw.choice([0, 1e-4, 0.1])
    common = {"lr": lr, "weight_decay": decay, "maximize": draw.random() < 0.2}
    if kind == "SGD":
        momentum = draw.choice([0, 0.5, 0.9])
        nesterov = momentum > 0 and draw.random() < 0.5
        dampening = 0 if nesterov else draw.choice([0, 0.1])
        return common | {"momentum": momentum, "nesterov": nesterov, "dampening": dampening}
    betas = draw.choice([(0.9, 0.999), (0.25, 0.5), (0.0, 0.3)])
    amsgrad = draw.random() < 0.4
    return common | {"betas": betas, "eps": draw.choice([1e-8, 1e-3]), "amsgrad": amsgrad}


def made(kind: str, shapes: list[tuple[int, ...]], draw: Random) -> tuple[Any, Any]:
    """The two optimizers, each of its own parameters; some lie channels last, some are float64."""
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    own = []
    for shape in shapes:
        x = torch.randn(shape, generator=generator)
        x = x.double() if draw.random() < 0.2 else x
        last = len(shape) == 4 and draw.random() < 0.5
        own.append(Parameter(x.to(memory_format=torch.channels_last) if last else x))
    theirs = [Parameter(p.detach().clone()) for p in own]
    half, other, all_of = len(own) // 2, {"lr": 0.07}, settings(kind, draw)
    pair = []
    for module, parts in ((client_optimizers, own), (optim, theirs)):
        groups = [{"params": parts[:half]}, {"params": parts[half:], **other}]
        pair.append(getattr(module, kind)(groups, **all_of))
    return tuple(pair)


def state_of(optimizer: Optimizer) -> tuple[dict[str, Parameter], dict[str, Tensor]]:
    every = [p for group in optimizer.param_groups for p in group["params"]]
    named = {str(i): p for i, p in enumerate(every)}
    return named, optimizer_state(optimizer, named, settings_of(optimizer))


def assert_equal(one: Optimizer, other: Optimizer) -> None:
    (mine, memory), (theirs, there) = state_of(one), state_of(other)
    assert list(memory) == list(there)
    for name in mine:
        assert_same_bits(mine[name], theirs[name])
    for key in memory:
        assert_same_bits(memory[key], there[key])


def assert_same_bits(one: Tensor, other: Tensor) -> None:
    assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
    assert one.detach().numpy().tobytes() == other.detach().numpy().tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_a_step_is_torchs_bit_for_bit(kind: str, seed: int) -> None:
    """Over random settings and shapes; some parameters have no gradient in some steps."""
    draw = Random(f"{kind} {seed}")
    shapes = draw.sample(SHAPES, 7)
    own, theirs = made(kind, shapes, draw)
    for number in range(6):
        for p, q in zip(state_of(own)[0].values(), state_of(theirs)[0].values(), strict=True):
            g = torch.randn_like(p) * 10 ** draw.uniform(-4, 2)
            g = torch.where(torch.rand_like(g) < 0.1, -0.0, g)
            p.grad = None if draw.random() < 0.2 else g
            q.grad = None if p.grad is None else g.clone()
        assert own.step() is None and theirs.step() is None
        assert_equal(own, theirs)
        if number == 2:  # what a client remembers goes through its memory
            for optimizer in (own, theirs):
                named, memory = state_of(optimizer)
                memory = {key: x.clone() for key, x in memory.items()}
                optimizer.state.clear()
                load_optimizer_state(optimizer, named, memory, settings_of(optimizer))
        own.zero_grad()
        assert all(p.grad is None for p in state_of(own)[0].values())


@pytest.mark.parametrize(("kind", "way"), [*product(KINDS, WAYS), ("SGD", "sparse")])
def test_other_ways_are_torchs(kind: str, way: str) -> None:
    pair = []
    for module in (client_optimizers, optim):
        w = Parameter(torch.linspace(-1, 1, 12).view(4, 3))
        own = {way: True} if way in ("foreach", "differentiable") else {}
        lr: Any = torch.tensor(0.1) if way == "tensor" else 0.1
        optimizer = getattr(module, kind)([w], lr=lr, **own)
        for _ in range(3):
            w.grad = torch.ones(4, 3)
            if way == "sparse":
                w.grad = w.grad.to_sparse()
            elif way == "differentiable":
                w.requires_grad_(False)  # a leaf that needs no gradient may be changed in place
            told = optimizer.step((lambda: 7) if way == "closure" else None)
            assert told == (7 if way == "closure" else None)
        pair.append(optimizer)
    assert_equal(*pair)


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_made_as_torchs(kind: str) -> None:
    own, theirs = (
        getattr(module, kind)([Parameter(torch.ones(2))], lr=0.25)
        for module in (client_optimizers, optim)
    )
    assert isinstance(own, getattr(optim, kind)) and repr(own) == repr(theirs)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        getattr(client_optimizers, kind)([Parameter(torch.ones(2))], lr=-1)


def test_hooks_are_called_once() -> None:
    w = Parameter(torch.ones(2))
    w.grad = torch.ones(2)
    optimizer, calls = client_optimizers.SGD([w], lr=0.1), []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert calls == [1]


@pytest.mark.slow
def test_torchs_compiler_is_not_imported() -> None:
    child = f"""
import sys, torch
from strategies import client_optimizers
for kind in {KINDS}:
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = getattr(client_optimizers, kind)([w], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        w.square().sum().backward()
        optimizer.step()
raise SystemExit("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", child], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
