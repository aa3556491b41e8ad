"""What the tests of ``measure`` share: a real update, some methods, the columns of both tables."""

import pytest
from torch import Tensor

from fedsim import RunConfig
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer

SOME = "raw; sbc(0.05); topk(0.1) | float32 | golomb; one_sided(0.1) | mean | golomb"
COLUMNS = [
    "method",
    "expansion",
    "entries",
    "wire_bits",
    "bits_per_entry",
    "ratio",
    "relative_error",
    "cosine",
    "compress_ms",
    "compress_ns_per_entry",
    "decompress_ms",
    "decompress_ns_per_entry",
    "error",
]
CODER_COLUMNS = ["coder", "of", "count", "bits", "bits_each", "entropy_each", "ratio_to_entropy",
                 "encode_ns_each", "decode_ns_each", "exact", "error"]  # fmt: skip


@pytest.fixture(scope="module")
def real() -> dict[str, Tensor]:
    """What one client of the digits task has learned in five local iterations."""
    config = RunConfig(task="digits", temporal=5)
    trainer = Trainer(config, ClientData.of(config))
    weights = {name: p.detach().clone() for name, p in trainer.parameters.items()}
    return trainer.train(0, weights, {}, 0, 5).update
