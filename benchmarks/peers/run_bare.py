"""The limit: the same training by hand, channels-last with pooling first; nothing is sent."""

from concurrent.futures import ThreadPoolExecutor
from threading import local

import torch
import torch.nn.functional as F
from torch import Tensor
from work import LR, Turns

LAYOUT = torch.channels_last


def main() -> None:
    turns, own = Turns(), local()
    work, weights = turns.work, turns.work.start

    def train(round_number: int, slot: int) -> tuple[list[Tensor], float]:
        if not hasattr(own, "model"):
            torch.set_num_threads(1)  # of this thread
            own.model = work.model(pool_first=True).to(memory_format=LAYOUT)
            own.optimizer = torch.optim.SGD(own.model.parameters(), lr=LR)
        parameters = list(own.model.parameters())
        with torch.no_grad():
            for p, w in zip(parameters, weights, strict=True):
                p.copy_(w)
        (x, y), total = work.data, torch.zeros(())
        for index in work.batches[round_number, slot]:
            images = x[index].contiguous(memory_format=LAYOUT)
            loss = F.cross_entropy(own.model(images), y[index])
            own.optimizer.zero_grad()
            loss.backward()
            own.optimizer.step()
            total += loss.detach()
        return [p.detach().clone() for p in parameters], float(total)

    with ThreadPoolExecutor(turns.processes) as pool:
        for round_number in range(turns.rounds):
            turns.wait()
            slots = range(len(work.cohorts[round_number]))
            trained = list(pool.map(lambda slot, r=round_number: train(r, slot), slots))
            each = zip(*(parameters for parameters, _ in trained), strict=True)
            weights = [torch.stack(same).mean(0) for same in each]
            iterations = work.batches.shape[2] * len(slots)
            turns.done(sum(loss for _, loss in trained) / iterations)


if __name__ == "__main__":
    main()
