"""Compiles what is compiled on first use before any test starts: once, not once a process.

Byte code is kept as well, even where the environment says otherwise: each worker, and each process
that a test starts, would compile modules again, and pytest rewrite their assertions again.

Each process keeps Ray's files in a folder of its own: Flower's simulation joins a cluster that it
finds, such as one that a test in another process has started.

Without a GPU, Triton's kernels run in its interpreter, which has to be said before it is imported.
"""

import os
import shutil
import sys
import tempfile
from functools import partial

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from compressors import ROWS, compress, decompress, parse


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    _ray_apart(config)
    if hasattr(config, "workerinput"):  # the process that hands out tests has done it
        return
    update = {"w": torch.linspace(-1, 1, 6000).reshape(60, 100), "b": torch.ones(3)}
    for row in ROWS:
        compressor = parse(row.example)
        packet, _ = compress(compressor, update)
        decompress(compressor, packet.payload, update)


def _ray_apart(config: pytest.Config) -> None:
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets need short paths
    os.environ["RAY_TMPDIR"] = folder
    os.environ.pop("RAY_ADDRESS", None)
    config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
