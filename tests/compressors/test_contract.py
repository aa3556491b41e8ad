"""Every row of the catalogue keeps the contract, in this process and in another."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from compressors import compress, parse, text, to_json
from tests.support.contract import (  # noqa: F401
    test_a_message,
    test_a_run_of_messages,
    test_another_method_or_other_tensors_are_refused,
    test_framing,
    test_layout_of_memory_does_not_matter,
    test_text_and_json_rebuild_an_equal_compressor,
)
from tests.support.generators import METHODS, bits_of, small_update
from tests.support.markdown import ROOT

_CHILD = """
import json, sys
import torch
from compressors import compress, decompress, from_json, parse, text, to_json
like = {n: torch.empty(s) for n, s in json.loads(sys.argv[1]).items()}
for job in json.load(sys.stdin):
    compressor = parse(job["text"])
    assert compressor == from_json(job["json"]) and to_json(compressor) == job["json"]
    assert text(compressor) == job["text"]
    got = decompress(compressor, bytes.fromhex(job["payload"]), like)
    again = compress(compressor, {n: torch.tensor(v) for n, v in job["update"].items()})[0]
    print(json.dumps([{n: x.view(torch.int32).tolist() for n, x in got.items()},
                      again.payload.hex()]))
"""


@pytest.mark.slow
def test_a_new_process_reads_text_json_and_bytes() -> None:
    """One process for all methods, with other hashes of strings; what it decodes is compared."""
    update = {name: x for name, x in small_update().items() if x.numel()}
    packets = [compress(parse(method), update)[0] for method in METHODS]
    jobs = [
        {
            "text": text(parse(method)),
            "json": to_json(parse(method)),
            "payload": packet.payload.hex(),
            "update": {name: x.tolist() for name, x in update.items()},
        }
        for method, packet in zip(METHODS, packets, strict=True)
    ]
    shapes = json.dumps({name: list(x.shape) for name, x in update.items()})
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, shapes],
        input=json.dumps(jobs),
        text=True,
        check=True,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "77"},
    )
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    assert len(lines) == len(METHODS)
    for (got, again), packet in zip(lines, packets, strict=True):
        assert again == packet.payload.hex()
        for name, values in got.items():
            expected = bits_of(packet.sent[name].decoded).view(np.int32)
            assert np.array_equal(np.array(values, np.int32), expected)
