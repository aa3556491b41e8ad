"""DDP with compressed gradients: two ranks over gloo on this machine."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from compressors import compress, decompress, parse
from fedsim import RunConfig, UsageError, ddp_hook, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer, make_optimizer

RANKS, STEPS = 2, 6
SPARSE = "ef(topk(0.1) | float32 | golomb)"
METHODS = ("raw", SPARSE)


def federation(method: str) -> RunConfig:
    """Clients that send the gradients of single batches: what ranks do."""
    return RunConfig.of(
        method=method,
        strategy="gradients",
        temporal=1,
        iterations=STEPS,
        clients=RANKS,
        evaluate_every=STEPS,
    )


def rank_works(rank: int, folder: str) -> None:
    """What a rank leaves, one piece after the other."""
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS)
    made = {method: as_the_federation(rank, method) for method in METHODS}
    torch.save(made | {"moved": goes_on(rank)}, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def as_the_federation(rank: int, method: str) -> tuple[Any, ...]:
    """A rank trains on the batches of the client of its number; what came of it."""
    config = federation(method)
    trainer = Trainer(config, ClientData.of(config))
    model = DistributedDataParallel(trainer.model, bucket_cap_mb=0.05)  # several buckets
    sent = ddp_hook(model, method)
    optimizer = make_optimizer(config, trainer.model.parameters())
    for step in range(STEPS):
        x, y = trainer.batch(rank, step)
        optimizer.zero_grad()
        trainer.task.loss(model(x), y).backward()
        optimizer.step()
    weights = {name: p.detach() for name, p in trainer.model.named_parameters()}
    return weights, sent.sent_bits, sent.received_bits, sent.steps


def goes_on(rank: int) -> tuple[list[Any], int]:
    """One weight of two entries, and gradients (3, 1) and (0, 4) that top-1 halves: by hand."""
    gradient = torch.tensor([[3.0, 1.0], [0.0, 4.0]][rank])
    moved = []
    state: dict[str, Any] = {}
    for _ in range(2):  # the second from a checkpoint of the first
        model = DistributedDataParallel(nn.Linear(2, 1, bias=False))
        sent = ddp_hook(model, "ef(topk(0.5) | float32 | golomb)")
        if state:
            sent.load_state_dict(state)
        model(gradient).sum().backward()
        moved.append(model.module.weight.grad.tolist())
        state = sent.state_dict()
    return moved, state["steps"]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the ranks has left."""
    folder = tmp_path_factory.mktemp("ranks")
    mp.start_processes(rank_works, args=(str(folder),), nprocs=RANKS, start_method="spawn")
    return [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("method", METHODS)
def test_ranks_train_what_the_federation_trains(
    method: str, ranks: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Both ranks have the same weights, and the federation's but for their last bits: its server
    adds the difference of an optimizer's step to its model."""
    one, sent, received, steps = ranks[0][method]
    other, sent_too, received_too, _ = ranks[1][method]
    done = run(federation(method), tmp_path / "run")
    trained = load_file(tmp_path / "run" / "model.safetensors")
    assert one.keys() == other.keys() == trained.keys()
    for name, x in trained.items():
        assert torch.equal(one[name], other[name])
        torch.testing.assert_close(one[name], x, rtol=1e-5, atol=1e-7)
    assert steps == STEPS and (sent, sent_too) == (received_too, received)
    within = 0 if method == "raw" else 1e-3  # the last bits of a magnitude choose other entries
    mean = (sent + sent_too) / RANKS
    assert mean == pytest.approx(done.summary["up_wire_bits"], rel=within, abs=0)


@pytest.mark.slow
@pytest.mark.processes
def test_residuals_go_on_from_a_checkpoint(ranks: list[dict[str, Any]]) -> None:
    """Step 1 sends 3 and 4: (1.5, 2). Rank 0 then has (3, 1) + (0, 1), and sends 3 again."""
    for rank in ranks:
        moved, steps = rank["moved"]
        assert moved == [[[1.5, 2.0]], [[1.5, 2.0]]] and steps == 2


def test_a_method_that_needs_a_server_is_refused(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/one", rank=0, world_size=1)
    try:
        model = DistributedDataParallel(nn.Linear(2, 1))
        with pytest.raises(UsageError, match="'ef21.*ef21"):
            ddp_hook(model, "ef21(raw)")
        sent = ddp_hook(model, SPARSE)
        model(torch.ones(2)).sum().backward()
        packet, _ = compress(parse(SPARSE), {"weight": torch.ones(1, 2), "bias": torch.ones(1)})
        assert (sent.sent_bits, sent.received_bits) == (8 * len(packet.payload), 0)
        template = {"weight": torch.empty(1, 2), "bias": torch.empty(1)}
        got = decompress(parse(SPARSE), packet.payload, template)
        assert torch.equal(model.module.weight.grad, got["weight"])
    finally:
        dist.destroy_process_group()
