"""Trains the base of `char_transformer` on the first half of Shakespeare's text.

    PYTHONPATH=. python docs/make_transformer.py DATA fedsim/tasks/char_transformer_base.json

DATA holds `shakespeare/shakespeare_complete.txt`. The draws follow from a seed; the sums of
another processor or another torch differ in their last digits, and what comes of 8,000 steps too.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from fedsim.ground.files import write_text
from fedsim.tasks.models.text import perplexity, summed_loss, token_loss, windows
from fedsim.tasks.models.transformer import CONTEXT, Decoder
from fedsim.tasks.transformer import SYMBOLS, encode_text, halves, load_halves

STEPS, BATCH, RATE, DECAY, CLIP, WARM = 8000, 32, 3e-3, 0.01, 1.0, 100


def train(numbers: Tensor, steps: int, test: tuple[Tensor, Tensor] | None = None) -> Decoder:
    """A new decoder after `steps` of AdamW: a linear start, then half a cosine down to zero."""
    x, y = windows(numbers, CONTEXT)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Decoder(SYMBOLS)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    for step in range(steps):
        if step * BATCH % len(x) < BATCH:
            order = torch.randperm(len(x), generator=generator)
        index = order[torch.arange(step * BATCH, (step + 1) * BATCH) % len(x)]
        factor = min(1.0, (step + 1) / WARM) * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = RATE * factor
        optimizer.zero_grad()
        token_loss(model(x[index]), y[index]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        if test is not None and (step + 1) % 500 == 0:
            with torch.no_grad():
                total = sum(
                    float(summed_loss(model(a), b))
                    for a, b in zip(test[0].split(500), test[1].split(500), strict=True)
                )
            print(
                f"step {step + 1}: held-out perplexity {perplexity(total / len(test[0])):.3f}",
                flush=True,
            )
    return model


def pack_weights(weights: Mapping[str, Tensor]) -> str:
    """Weights as the text of a JSON file: shapes, and values rounded to float16 in base64.

    JSON, because Flower packs no other kind of data into an app.
    """
    packed = {
        name: {
            "shape": list(w.shape),
            "float16": base64.b64encode(w.numpy().astype("<f2").tobytes()).decode(),
        }
        for name, w in weights.items()
    }
    return json.dumps(packed, indent=1) + "\n"


def pretrain() -> None:
    """Trains and writes; the last line printed is the perplexity of what is written."""
    parser = argparse.ArgumentParser(description="the base of char_transformer")
    parser.add_argument("data", type=Path, help="the folder with shakespeare/")
    parser.add_argument("out", type=Path, help="the JSON file that is written")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    data = load_halves(flags.data)
    text, _, source = halves(flags.data)
    print(f"{source}: {len(text):,} characters, {STEPS} steps")
    model = train(encode_text(text), STEPS, (data.test_x[:], data.test_y))
    write_text(flags.out, pack_weights(model.state_dict()))


if __name__ == "__main__":
    pretrain()
