"""A round of local training without fedsim: the loop that a student writes, and faster ones.

A part of ``gpu_training.py``. Each peer is a function of no arguments that trains all clients of a
round from one model and averages them; nothing is sent. ``peers`` has those that can be had here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

Round = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """What is trained.

    Attributes:
        name: of the model.
        build: it.
        side, channels: of its images.
        clients, steps, batch: of a round.
        augmented: whether images are cropped and flipped; the peers do not.
    """

    name: str
    build: Callable[[], nn.Module]
    side: int
    channels: int
    clients: int
    steps: int = 10
    batch: int = 32
    augmented: bool = False
    lr: float = 0.01

    def batches(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Random images (clients, steps, batch, C, H, W) and their classes."""
        generator = torch.Generator(device).manual_seed(1)
        size = self.clients, self.steps, self.batch
        shape = *size, self.channels, self.side, self.side
        x = torch.randn(shape, generator=generator, device=device)
        return x, torch.randint(10, size, generator=generator, device=device)


class Loop:
    """One client after the other, each by a plain loop; ``captured``: its step is a CUDA graph."""

    def __init__(self, case: Case, device: torch.device, captured: bool = False) -> None:
        self.case, (self.x, self.y) = case, case.batches(device)
        self.model = case.build().to(device).train()
        self.parameters = [*self.model.parameters()]
        self.optimizer = torch.optim.SGD(self.parameters, lr=case.lr)
        self.weights = [p.detach().clone() for p in self.parameters]
        self.batch = self.x[0, 0].clone(), self.y[0, 0].clone()
        self.repeat = self._captured() if captured else self.step

    def step(self) -> None:
        """One step with the present batch."""
        loss = F.cross_entropy(self.model(self.batch[0]), self.batch[1])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def _captured(self) -> Callable[[], None]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay

    @torch.no_grad()
    def _set(self) -> None:
        torch._foreach_copy_(self.parameters, self.weights)

    def round(self) -> list[Tensor]:
        """Trains all clients; returns the mean of their weights."""
        means = [torch.zeros_like(w) for w in self.weights]
        for client in range(self.case.clients):
            self._set()
            for step in range(self.case.steps):
                self.batch[0].copy_(self.x[client, step])
                self.batch[1].copy_(self.y[client, step])
                self.repeat()
            with torch.no_grad():
                torch._foreach_add_(means, self.parameters, alpha=1 / self.case.clients)
        return means


def vectorized(case: Case, device: torch.device) -> Round:
    """All clients at once by ``torch.func.vmap``, with plain SGD."""
    x, y = case.batches(device)
    model = case.build().to(device).train()
    first = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, weights, (x,)), y)

    gradients = vmap(grad(loss))

    def round() -> list[Tensor]:
        weights = {name: torch.stack([p] * case.clients) for name, p in first.items()}
        for step in range(case.steps):
            slopes = gradients(weights, x[:, step], y[:, step])
            torch._foreach_add_([*weights.values()], [*slopes.values()], alpha=-case.lr)
        return [w.mean(dim=0) for w in weights.values()]

    return round


def by_jax(case: Case) -> Round:
    """LeNet5 by JAX: ``vmap`` over clients and ``scan`` over steps, one compiled program.

    Raises ``ImportError`` without JAX.
    """
    import jax
    from jax import lax
    from jax import numpy as jnp

    jax.config.update("jax_default_matmul_precision", "highest")
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    shapes = ((20, 1, 5, 5), (50, 20, 5, 5), (800, 500), (500, 10))
    widths = (20, 50, 500, 10)
    first = [
        (0.05 * jax.random.normal(key, shape), jnp.zeros(width))
        for key, shape, width in zip(keys, shapes, widths, strict=True)
    ]
    size = case.clients, case.steps, case.batch
    x = jax.random.normal(keys[0], (*size, 1, 28, 28))
    y = jax.random.randint(keys[1], size, 0, 10)

    def loss(weights: Any, x: Any, y: Any) -> Any:
        for w, b in weights[:2]:
            x = jax.nn.relu(lax.conv(x, w, (1, 1), "VALID") + b[:, None, None])
            window = 1, 1, 2, 2
            x = lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")
        x = x.reshape(len(x), -1)
        (w3, b3), (w4, b4) = weights[2:]
        logits = jax.nn.relu(x @ w3 + b3) @ w4 + b4
        return -jax.nn.log_softmax(logits)[jnp.arange(len(y)), y].mean()

    def step(weights: Any, batch: Any) -> tuple[Any, None]:
        slopes = jax.grad(loss)(weights, *batch)
        return jax.tree.map(lambda w, g: w - case.lr * g, weights, slopes), None

    def client(x: Any, y: Any) -> Any:
        return lax.scan(step, first, (x, y))[0]

    mean = jax.jit(lambda x, y: jax.tree.map(lambda w: w.mean(0), jax.vmap(client)(x, y)))
    return lambda: jax.block_until_ready(mean(x, y))


def peers(case: Case, device: torch.device) -> dict[str, Callable[[], Round]]:
    """What makes each peer's round, by its name; a maker raises where it cannot be had."""
    makers: dict[str, Callable[[], Round]] = {
        "a loop in PyTorch": lambda: Loop(case, device).round,
        "`torch.func.vmap`": partial(vectorized, case, device),
    }
    if device.type == "cuda":
        makers["the loop, its step captured"] = lambda: Loop(case, device, captured=True).round
    if case.name == "LeNet5":
        makers["JAX, `vmap` and `scan`"] = partial(by_jax, case)
    return makers
