"""Compressed gradients in an ordinary program of torch's DistributedDataParallel (DDP).

Each rank encodes its gradient by any method of the catalogue, all ranks gather the messages, and
each one decodes all of them and steps with their mean. What a method keeps (a residual, a momentum)
stays with its rank.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from compressors import Compressor, State, compress, decompress, derive, parse, text
from compressors.whole.keepers import needs_server
from fedsim.ground.errors import UsageError
from strategies.channel.traffic import mean


class CompressedGradients:
    """A rank's end of the exchange, and its books.

    With gradients g_i of W ranks, compressor C and memories m_i, every rank's gradient becomes
    (1 / W) sum_i D(payload_i), where payload_i, m_i = C(g_i, m_i) and D decodes.

    Args:
        model: whose gradients travel.
        method: how; its text, or a compressor.
        seed: for methods with random choices.

    Attributes:
        steps: backward passes whose gradients were exchanged.
        sent_bits: of this rank's messages so far.
        received_bits: of the other ranks' messages so far.
        memory: what the method keeps.
    """

    def __init__(
        self, model: DistributedDataParallel, method: str | Compressor, seed: int = 0
    ) -> None:
        self.compressor = parse(method) if isinstance(method, str) else method
        if server := needs_server(self.compressor):
            raise UsageError(
                f"method is {text(self.compressor)!r}: its messages are read by strategy {server} "
                "alone; ranks have no server"
            )
        self.group, self.seed = model.process_group, seed
        self.rank, self.ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        named = model.module.named_parameters()
        self._names = {p: name for name, p in named if p.requires_grad}
        self.steps = self.sent_bits = self.received_bits = 0
        self.memory: State | None = None
        self._buckets: list[tuple[dist.GradBucket, Future[Tensor]]] = []

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint of the program keeps of this rank."""
        return {
            "memory": dict(self.memory or {}),
            "steps": self.steps,
            "sent_bits": self.sent_bits,
            "received_bits": self.received_bits,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what ``state_dict`` returned."""
        self.memory = dict(state["memory"]) or None
        self.steps, self.sent_bits = state["steps"], state["sent_bits"]
        self.received_bits = state["received_bits"]

    def bucket(self, bucket: dist.GradBucket) -> Future[Tensor]:
        """What DDP calls with each bucket of gradients; with the last one the ranks exchange.

        So a step has one message, for any buckets.
        """
        future: Future[Tensor] = Future()
        self._buckets.append((bucket, future))
        if bucket.is_last():
            buckets, self._buckets = self._buckets, []
            self._exchange(buckets)
        return future

    def _exchange(self, buckets: list[tuple[dist.GradBucket, Future[Tensor]]]) -> None:
        parts = {
            self._names[p]: gradient
            for bucket, _ in buckets
            for p, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True)
        }
        update = {name: parts[name].float() for name in self._names.values() if name in parts}
        seed = derive(self.seed, "ddp", self.rank, self.steps)
        packet, self.memory = compress(self.compressor, update, self.memory, seed)
        payloads = self._gathered(packet.payload)
        decoded = [decompress(self.compressor, payload, update) for payload in payloads]
        average = mean(decoded, [1.0] * self.ranks)
        for name, gradient in parts.items():
            gradient.copy_(average[name])
        self.steps += 1
        self.sent_bits += 8 * len(packet.payload)
        self.received_bits += 8 * (sum(map(len, payloads)) - len(packet.payload))
        for bucket, future in buckets:
            future.set_result(bucket.buffer())

    def _gathered(self, payload: bytes) -> list[bytes]:
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.ranks)]
        dist.all_gather(lengths, torch.tensor([len(payload)]), group=self.group)
        longest = max(int(length) for length in lengths)
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(payload)] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
        gathered = [torch.empty_like(padded) for _ in range(self.ranks)]
        dist.all_gather(gathered, padded, group=self.group)
        return [
            x[: int(length)].numpy().tobytes() for x, length in zip(gathered, lengths, strict=True)
        ]


def ddp_hook(
    model: DistributedDataParallel, method: str | Compressor, seed: int = 0
) -> CompressedGradients:
    """Compresses the gradients that ``model`` exchanges from now on; returns the rank's books.

    It is a communication hook of DDP (``register_comm_hook``) over a group of backend gloo, which
    carries tensors of the CPU. Messages are padded to the longest of a step on their way; the bits
    that are counted are those of the payloads.

    Args:
        model: of this rank.
        method: a text, as ``--method`` takes it with its fraction, or a compressor; the same on
            every rank.
        seed: for methods with random choices; the same on every rank.

    Raises:
        UsageError: the messages of ``method`` need a server, or the group is of another backend.
        ValueError: ``method`` is not a method.

    Example:
        model = DistributedDataParallel(net)
        sent = fedsim.ddp_hook(model, "sbc(0.01)")
        ...  # the training loop stays as it is
        print(sent.sent_bits)

    Source: the hooks are torch's (Li et al. 2020, PyTorch Distributed).
    """
    backend = dist.get_backend(model.process_group)
    if backend != "gloo":
        raise UsageError(f"the model's process group is of backend {backend!r}: it takes gloo")
    hook = CompressedGradients(model, method, seed)
    model.register_comm_hook(hook, CompressedGradients.bucket)
    return hook
