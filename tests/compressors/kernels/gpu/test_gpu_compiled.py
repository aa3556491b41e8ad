"""Every kernel is compiled for a GPU, down to machine code; no GPU is needed for that.

The interpreter takes what the compiler refuses, and knows nothing of instructions that round in
another way than the loops: fused products and sums, quick divisions, denormals flushed to zero.
Nor does it say which kernels have more numbers at hand than there are registers, and spill them.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gpu import needs_triton

ROOT = Path(__file__).parents[4]
_CHILD = r"""
import pathlib, re, subprocess, sys
import numpy as np, torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import triton
from compressors.kernels import kinds
from compressors.kernels.gpu import (codes, entries, join, layout, measure, select, stream,
                                        unpack)

TYPES = {torch.int64: "*i64", torch.int32: "*i32", torch.int16: "*i16", torch.uint8: "*u8",
         torch.float32: "*fp32", torch.float64: "*fp64"}
ROUNDED = ("fma.rn.f", ".ftz", "div.full", "div.approx", "sqrt.approx")
seen = set()

def build(kernel, programs, *given, warps=4, **constants):
    names = kernel.arg_names
    kinds = {n: TYPES[x.dtype] for n, x in zip(names, given, strict=False)}
    key = (kernel.__name__, tuple(kinds.values()), tuple(constants.items()))
    if key in seen:
        return
    seen.add(key)
    source = ASTSource(fn=kernel, signature=kinds | dict.fromkeys(constants, "constexpr"),
                       constexprs={(names.index(n),): v for n, v in constants.items()})
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32),
                          options={"num_warps": warps, "enable_fp_fusion": False})
    wrong = [one for one in ROUNDED if one in code.asm["ptx"]]
    assert not wrong, (kernel.__name__, constants, wrong)
    place = pathlib.Path(sys.argv[1], "one.cubin")
    place.write_bytes(code.asm["cubin"])
    told = subprocess.run([knobs.nvidia.cuobjdump.path, "--dump-resource-usage", place],
                          capture_output=True, text=True, check=True).stdout
    used = re.search(r"REG:(\d+) STACK:(\d+).* LOCAL:(\d+)", told)
    registers, stack, local = map(int, used.groups())
    # CUDA 13.0's ptxas gives a kernel that spills nothing a frame of 8 bytes.
    assert stack <= 8 and local == 0 and registers <= 209, (kernel.__name__, constants, told)

for room in (codes, join, measure, select, stream, unpack):
    room.launch = build
place, flat, t = torch.device("cpu"), torch.zeros(12), torch.tensor([0, 0])
whole = layout.programs_of((5, 7), place)
parts = [torch.zeros(5), torch.zeros(7)]
where = torch.from_numpy(join.addresses(parts))
for sides, size in ((1, 5), (2, 5), (1, 9000), (2, 9000)):  # of these the sample is not all
    parted = layout.programs_of((size, 7), place)
    select.largest_of_segments(torch.zeros(size + 7), parted, np.array([1, 2]), sides)
for kept in (None, where):
    join.join(where, kept, whole)
join.cleared([parts], [[t, t]])
words = stream.stream(100, place)
stream.Rice(torch.tensor([1, 2]), t, t, t, (2, 3)).write(words, t)
stream.put_fields_gpu(words, t, t, t)
for width, low, dtype in ((1, 8, torch.int16), (8, 0, torch.uint8), (32, 0, torch.int32)):
    stream.put_plane(torch.zeros(12, dtype=dtype), t, t, words, t, (5, 7), width, low)
keys, two = torch.zeros((2, 2), dtype=torch.int64), torch.zeros(2)
plain = codes.Numbers(two, two, t, 0, None, two)
buckets = codes.Numbers(two, two, t, 4, two, two)
for chosen in (None, t):
    some = entries.Entries(flat, t, chosen, t, t, t, (5, 7))
    for what in (measure.MAGNITUDES, measure.SQUARES):
        measure.measure(some, what)
    measure.about_mean(some)
    cut = entries.buckets_of((5, 7), 4, place)
    measure.measure(cut.cut(some), measure.SQUARES, cut.layout)
    for number in range(7):
        for settings in ((1, 254, 8), (64, 190, 7)) if number == kinds.NATURAL else ((7, 0, 0),):
            kind = kinds.SymbolKind(number, torch.int16, number in (2, 4, 5, 6), settings)
            for numbers in (plain, buckets) if number in (kinds.LEVELS, kinds.POWERS) else (plain,):
                codes.quantize(some, kind, numbers, keys, chosen is not None)
                width = {0: 32, 1: 0, 2: 9, 3: 1, 4: 1}.get(number, 4)
                packed = unpack.Packed(kind, width, 1 << width, words, t, numbers)
                unpack.unpack_symbols(some, packed)
print(len(seen))
"""


@pytest.mark.slow
@needs_triton
def test_every_kernel_compiles_and_rounds_as_the_loops_do(tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(tmp_path)],
        cwd=ROOT,
        text=True,
        capture_output=True,
        env=environment,
    )
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > 40
