"""Entropy coders with adaptive models."""

from compressors.rows.base import Row

ROWS = (
    Row("context", "positions", "coders.context:Context",
        "Context-adaptive range coding of a grid of positions",
        "this project", "topk(0.01) | float32 | context"),
)  # fmt: skip
