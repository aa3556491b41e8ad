"""Settings that cannot be: one error that names the part, the setting and the value."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import compressors as c
from compressors import parse
from tests.support.looping import looped

REFUSED = """
topk(0.1) | float32 | bloom(0) => bloom: eps is 0
topk(0.1) | float32 | bloom(1) => bloom: eps is 1
topk(0.1) | float32 | bloom(-0.1) => bloom: eps is -0.1
topk(0.1) | float32 | bloom(1e-11) => bloom: eps is 1e-11
topk(0.1) | float32 | bloom(true) => bloom: eps is True
topk(0.1) | float32 | bloom(0.1, p3) => policy is 'p3': give one of naive, p0
one_sided(0.1) | mean | bloom(0.1) => adds positions of any sign
blocks(4, 0.1) | float32 | bloom(0.1, naive) => shifts values by single entries
topk(0.1) | float32 | golomb(0) => golomb: p is 0
topk(0.1) | float32 | golomb(1.5) => golomb: p is 1.5
topk(0.1) | float32 | golomb(true) => golomb: p is True
topk(0.1) | float32 | golomb(1e-30) => the least density is
topk(0.1) | float32 | golomb(5e-324) => the least density is
topk(0.1) | float32 | golomb(kind=best) => golomb: kind is 'best': give one of rice, exact, fit
topk(0.1) | float32 | golomb(order=other) => golomb: order is 'other': give one of interleaved
topk(0.1) | float32 | golomb(0.1, fit) => golomb: p is 0.1
qsgd(7) | shs(0) => shs: gamma is 0: give a whole number from 1 to 65536
qsgd(7) | shs(2.5) => shs: gamma is 2.5
qsgd(7) | shs(5, fit=3) => shs: fit is 3: give true or false
qsgd(7) | shs(5, sample=0) => shs: sample is 0
qsgd(7) | sh(0) => sh: sample is 0: give a whole number from 1
qsgd(7) | shs => gamma
float32 | deflate(0) => deflate: level is 0: give a whole number from 1 to 9
float32 | deflate(10) => deflate: level is 10
float32 | deflate(1.5) => deflate: level is 1.5
float32 | deflate(true) => deflate: level is True
float32 | zstd(0) => zstd: level is 0: give a whole number from 1 to 22
float32 | zstd(23) => zstd: level is 23
bins(0) => bins: bits is 0
bins(9) => bins: bits is 9
bins(2, 0) => bins: spread is 0
bins(2, true) => bins: spread is True
steps(1) => steps: bits is 1
steps(9) => steps: bits is 9
steps(4, 0) => steps: bucket is 0
mx(e3m4) => format
mx(e4m3, 0) => block
mx(e4m3, 32, down) => rounding
fp8(e2m1) => fp8: format
fit_poly(degree=16) => fit_poly: degree is 16
fit_poly(degree=-1) => fit_poly: degree is -1
fit_poly(degree=2.5) => fit_poly: degree is 2.5
fit_poly(segments=0) => fit_poly: segments is 0
fit_poly(segments=1025) => fit_poly: segments is 1025
fit_poly(segments=best) => fit_poly: segments is 'best'
dither(0) => levels is 0: give a whole number from 1 to 65535
dither(2.0) => levels is 2.0
dither(true) => levels is True
dither(65536) => levels is 65536
dither(128, kind=natural) => levels is 128: give a whole number from 1 to 127
dither(1, 0.5) => norm is 0.5: p is a number of at least 1
dither(1, true) => norm is True
dither(1, none) => norm is None
dither(1, two) => norm is 'two'
dither(1, kind=even) => kind is 'even': give one of standard, natural
dither(1, bucket=0) => bucket is 0
dither(1, norm_code=float16) => norm_code is 'float16': give one of float32
minmax(0) => minmax: bits is 0: give a whole number from 1 to 16
minmax(17) => minmax: bits is 17
minmax(2.0) => minmax: bits is 2.0
codebook(17, 1.0) => codebook: bits is 17
codebook(3, 0) => codebook: step is 0: give a number above 0
codebook(3, -1) => codebook: step is -1
codebook(3, 1e38) => codebook: step is 1e+38
codebook(3, 1e-46) => codebook: step is 1e-46
codebook(3, '1') => codebook: step is '1'
codebook(3, true) => codebook: step is True
lattice(0) => lattice: bits
lattice(9) => lattice: bits
lattice(true) => lattice: bits
lloyd(0) => lloyd: bits is 0
lloyd(5) => lloyd: bits is 5
eden(5) => lloyd: bits is 5
drive(none) => lloyd: scale is None
lloyd(1, 'most') => lloyd: scale is 'most'
magnitude(median) => magnitude: value is 'median': give one of min, avg, column
magnitude(bits=3) => magnitude: bits is 3: give a whole number from 1 to 2
magnitude(bits=true) => magnitude: bits is True
magnitude(column, bits=2) => 'column', which goes with bits 1
stc(1.5) => p is 1.5
cnat(1) => bits of cnat is 1: give a whole number from 2 to 9
cnat(10) => bits of cnat is 10
cnat(true) => bits of cnat is True
cnat(9, 0) => top of cnat is 0
cnat(7) => top of cnat is None
cnat(8, -1) => top of cnat with bits=8 is -1
cnat(5, 128) => top of cnat with bits=5 is 128
cnat(5, 1.5) => is 1.5: give a whole number
cnat(9, none, up) => rounding of cnat is 'up': give one of random, nearest
sign(0) => sign: magnitude is 0: give a float32 number above 0
sign(-1) => sign: magnitude is -1
sign(1e39) => sign: magnitude is 1e+39
sign(1e-46) => sign: magnitude is 1e-46
sign(true) => sign: magnitude is True
sign('1') => sign: magnitude is '1'
onebit(2) => onebit: columns is 2: give true or false
sketch(1) => sketch: buckets is 1: give a whole number from 2
sketch(65537) => sketch: buckets is 65537
sketch(2.5) => sketch: buckets is 2.5
sketch(true) => sketch: buckets is True
terngrad(-1) => terngrad: clip is -1
terngrad(true) => terngrad: clip is True
terngrad('2.5') => terngrad: clip is '2.5'
topk(0.1, 0) | float32 => topk: sample is 0
topk(0.1, 1.5) | float32 => topk: sample is 1.5
dryden(0) | float32 => dryden: p is 0
threshold(0) | float32 => threshold: t is 0: a magnitude lies above 0
threshold(-1) | float32 => threshold: t is -1
threshold(1e39) | float32 => threshold: t is 1e+39
threshold(1e-50) | float32 => threshold: t is 1e-50
threshold('1') | float32 => threshold: t is '1'
blocks(0) | float32 => blocks: b is 0
blocks(2.0) | float32 => blocks: b is 2.0
blocks(2, 0) | float32 => blocks: p is 0
rtopk(0.2, 0.1) | float32 => rtopk: p is 0.2 and m is 0.1: p is at most m
rtopk(0.1, 2) | float32 => rtopk: m is 2
rtopk(0.1, 0.2, scaled=1) | float32 => rtopk: scaled is 1
randk(0) | float32 => randk: p is 0
randk(0.1, scaled=2) | float32 => randk: scaled is 2: give true or false
randk(0.1, seeded='no') | float32 => randk: seeded is 'no'
bernoulli(1.1) | float32 => bernoulli: q is 1.1
bernoulli(0.1, seeded=none) | float32 => bernoulli: seeded is None
chunk_topk(0) | float32 => chunk_topk: p is 0
chunk_topk(0.1, 0) | float32 => chunk_topk: size is 0
gspar(0) | float32 => gspar: p is 0: a fraction
ef(raw, 0) => ef: decay is 0
ef(raw, 1.5) => ef: decay is 1.5
ef(raw, true) => ef: decay is True
ef(raw, 1e999) => ef: decay is inf
dgc(0) => dgc: p is 0
dgc(0.1, -1) => warmup is -1: give a whole number of at least 0
dgc(0.1, 1.5) => warmup is 1.5
dgc(0.1, stage=0) => stage is 0: give a whole number of at least 1
dgc(0.1, momentum=1) => momentum is 1: it lies in
dgc(0.1, momentum=-0.1) => momentum is -0.1
dgc(0.1, momentum='a') => momentum is 'a'
dgc(0.1, clip=0) => clip is 0: give a number above 0, or none
dgc(0.1, clip=1e999) => clip is inf
lowrank(0) => rank is 0
powersgd(-1) => rank is -1
lowrank(1.5) => rank is 1.5
lowrank(true) => rank is True
secagg(1, 0.5) => secagg: bits
secagg(25, 0.5) => secagg: bits
secagg(8, 0) => secagg: clip
secagg(8, true) => secagg: clip
secagg(8, 0.5, 7) => secagg: modulus
secagg(8, 0.5, 33) => secagg: modulus
secagg(8, 0.5, 9, 0) => secagg: p
secagg(8, 0.5, 9, weight=2) => secagg: modulus
secagg(20, 0.5, weight=13) => secagg: weight
sketchml(0) => sketchml: p is 0
sketchml(0.1, buckets=1) => sketchml: buckets is 1
sketchml(0.1, groups=257) => sketchml: groups is 257
sketchml(0.1, rows=0) => sketchml: rows is 0
sketchml(0.1, rows=17) => sketchml: rows is 17
sketchml(0.1, columns=0) => sketchml: columns is 0
sketchml(0.1, columns=1.5) => sketchml: columns is 1.5
threelc(0.99) => threelc: sparsity is 0.99: 1 <= sparsity < 2
threelc(2) => threelc: sparsity is 2
threelc(true) => threelc: sparsity is True
rotate(raw) => rotate takes a codec of one tensor
fragments(raw, 0) => count is 0
fragments(raw, 2, random) => order is 'random'
structured_mask(0) => a fraction of entries lies above 0 and at most 1
sketched(1.5) => a fraction of entries lies above 0 and at most 1
sketched(0.1, 0) => bits is 0
q_sparse(-0.5) => a fraction of entries lies above 0 and at most 1
q_sparse(0.1, 0) => levels is 0
topk_cnat('a') => a fraction of entries lies above 0 and at most 1
deepreduce(0.01, 'golomb') => deepreduce: index is 'golomb': give one of none, bloom
deepreduce(0.01, 'rle', 'cnat') => deepreduce: value is 'cnat': give one of none, fit
deepreduce(0) => deepreduce: p is 0
deepreduce(0.01, bloom_naive, none, 0.01) => puts values at wrong places
skcompress(2) => topk: p is 2
ef21(ef(cnat)) => has a memory of its own
ef21(ef21(cnat)) => has a memory of its own
ef21(diana(cnat)) => has a memory of its own
ef21(randk(0.1) | float32) => use ef21(randk(0.1, false)
ef21(marina(cnat, 0.1)) => only the server of strategy marina understands
ef(ef21(cnat)) => has a memory of its own
ef21(3) => takes a compressor
diana(topk(0.1) | float32) => use ef21(topk(0.1)
diana(ef(cnat)) => has a memory of its own
diana(cnat, 0) => alpha is 0: 0 < alpha <= 1
diana(cnat, 1.5) => alpha is 1.5
marina(topk(0.1) | float32, 0.1) => which is biased: marina needs an unbiased method
marina(ef(cnat), 0.1) => has a memory of its own
marina(cnat, 0) => marina: p is 0
permk(0) => permk: clients is 0
permk(65536) => permk: clients is 65536
count_sketch(0) => count_sketch: p is 0
count_sketch(0.1, 0) => count_sketch: rows is 0
count_sketch(0.1, 64) => count_sketch: rows is 64
fetchsgd(0.1, 5, 0) => count_sketch: columns is 0
dct(0, float32) => dct: size is 0
dct(257, float32) => dct: size is 257
dct(8, raw) => dct takes a codec
subset(0, float32) => subset: q is 0
subset(2, float32) => subset: q is 2
subset(0.5, raw) => subset takes a codec
cocktailsgd(0.2) => p is 0.2: at most drawn, which is 0.1
ef(projections(4)) => projections(4, false)
then(3, cnat) => then: first is
then(cnat, 3) => then: second is
"""
TABLE = [line.rsplit(" => ", 1) for line in REFUSED.strip().splitlines()]


@looped("row", TABLE)
def test_a_setting_is_named_with_its_value(row: list[str]) -> None:
    method, words = row
    with pytest.raises(ValueError) as error:
        parse(method)
    said = str(error.value).removeprefix(f"method {method!r}: ")
    assert words in said and "\n" not in said


WITHOUT_A_TEXT: dict[str, Callable[[], Any]] = {
    "bloom: eps is nan": lambda: c.Bloom(math.nan),
    "golomb: p is nan": lambda: c.Golomb(math.nan),
    "sign: magnitude is nan": lambda: c.Sign(math.nan),
    "terngrad: clip is nan": lambda: c.TernGrad(math.nan),
    "terngrad: clip is inf": lambda: c.TernGrad(math.inf),
    "threshold: t is nan": lambda: c.Threshold(math.nan),
    "codebook: step is nan": lambda: c.Codebook(3, math.nan),
    "threelc: sparsity is nan": lambda: c.ThreeLC(math.nan),
    "one_sided: p is nan": lambda: c.sbc(math.nan),
    "one_sided: p is inf": lambda: c.sbc(math.inf),
    "dither: norm is 'nan'": lambda: c.Dither(3, "nan"),
    "norm_code is 'dither(3)'": lambda: c.Dither(1, norm_code=c.qsgd(3)),
    "ef: decay is nan": lambda: c.ErrorFeedback(c.Raw(), math.nan),
}


@pytest.mark.parametrize("words", WITHOUT_A_TEXT)
def test_values_that_have_no_text(words: str) -> None:
    with pytest.raises(ValueError) as error:
        WITHOUT_A_TEXT[words]()
    assert words in str(error.value)
