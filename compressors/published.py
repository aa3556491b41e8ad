"""Published methods: those that no text of parts says, and rows of newer ones.

All others are equations in the rows of ``compressors.catalogue``.
"""

from compressors.base import Compressor
from compressors.coders.bloom import Bloom
from compressors.coders.fixed import Fixed, Raw32
from compressors.coders.huffman import IndexHuffman
from compressors.coders.runlength import RunLength
from compressors.coders.zipped import Deflate
from compressors.parts import PositionCode, Quantizer, SymbolCode
from compressors.printing import shown
from compressors.quantize.bins import Steps
from compressors.quantize.curvefit import FitPoly
from compressors.quantize.dexp import FitDExp
from compressors.quantize.dither import Dither, qsgd
from compressors.quantize.floats import Float32
from compressors.row import Row
from compressors.settings import check_one_of, check_share
from compressors.sparsify.chunks import ChunkTopK
from compressors.sparsify.identity import Identity
from compressors.sparsify.threshold import Nonzero
from compressors.sparsify.topk import TopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import Flat, PerTensor
from compressors.whole.pipeline import Pipeline
from compressors.whole.raw import Raw
from compressors.whole.rotate import Cosine
from compressors.whole.subset import Subset

_INDEX = (None, "bloom_naive", "bloom_p0", "bloom_p1", "bloom_p2", "rle", "huffman")
_VALUE = (None, "fit_poly", "fit_dexp", "deflate", "qsgd")


def gradient_dropping(p: float, scope: str = "tensor") -> Compressor:
    """Gradient dropping of all but a fraction ``p`` (Aji & Heafield 2017, Algorithm 1).

        gradient_dropping(p) = ef(per_tensor(topk(p) | float32 | golomb))

    ``scope`` is ``tensor`` for a threshold per tensor (local) or ``model`` for one over all
    (global): ``flat`` in the place of ``per_tensor``. p = 1 means dense: ``raw``. Raises
    ``ValueError`` for p outside (0, 1] or another scope.
    """
    check_one_of("gradient_dropping: scope", scope, ("tensor", "model"))
    sparse = Pipeline(TopK(p), Float32())
    if p == 1:
        return Raw()
    return ErrorFeedback(PerTensor(sparse) if scope == "tensor" else Flat(sparse))


def deepreduce(
    p: float, index: str | None = "bloom_p2", value: str | None = None, eps: float = 0.001
) -> Compressor:
    """DeepReduce (Kostopoulou et al. 2021, Table 3): one coder for indices, one for values.

        deepreduce(p, INDEX, VALUE) = ef(per_tensor(topk(p) | VALUE | INDEX))

    The memory is that of section 6.3. p = 1 takes the tensor as sparse as it is: ``nonzero`` in the
    place of ``topk(p)``.

    Args:
        p: the fraction r / d of entries.
        index: None (keys of 32 bits), ``bloom_naive``, ``bloom_p0``, ``bloom_p1``,
            ``bloom_p2``, ``rle`` (of the bitmap) or ``huffman`` (of the bytes of a key).
            ``bloom_naive`` is refused: a memory around values at wrong places grows without
            end. Write that pipeline out, without ``ef``.
        value: None (32 bits), ``fit_poly`` (degree 5, 8 pieces), ``fit_dexp``, ``deflate``,
            or ``qsgd`` (7 bits, buckets of 512).
        eps: the false positive rate of a Bloom filter; without one it says nothing.

    In a text, put names that are also names of the catalogue into quotes:
    ``deepreduce(0.01, 'huffman', 'fit_poly')``.

    Raises ``ValueError`` for other settings.

    Example:
        >>> from compressors import text
        >>> text(deepreduce(0.01, "bloom_p0", "qsgd", eps=0.6))
        'ef(per_tensor(topk(0.01) | dither(63, bucket=512) | bloom(0.6)))'
    """
    check_share("deepreduce: p", p)
    for name, coder, names in (("index", index, _INDEX), ("value", value, _VALUE)):
        if coder not in names:
            allowed = ", ".join(str(one).lower() for one in names)
            raise ValueError(f"deepreduce: {name} is {shown(coder)}: give one of {allowed}")
    positions: dict[str | None, PositionCode] = {
        None: Raw32(), "rle": RunLength(), "huffman": IndexHuffman(),
    }  # fmt: skip
    if index is not None and index.startswith("bloom_"):
        positions[index] = Bloom(eps, index.removeprefix("bloom_"))
    quantizers: dict[str | None, Quantizer] = {  # QSGD of 7 bits, sign and level in 127 symbols
        "fit_poly": FitPoly(), "fit_dexp": FitDExp(), "qsgd": qsgd(63, 512),
    }  # fmt: skip
    symbols: SymbolCode = Deflate() if value == "deflate" else Fixed()
    sparse, quantizer = Nonzero() if p == 1 else TopK(p), quantizers.get(value, Float32())
    return ErrorFeedback(PerTensor(Pipeline(sparse, quantizer, positions[index], symbols)))


def fedpaq(levels: int = 1, scope: str = "model") -> Compressor:
    """FedPAQ (Reisizadeh et al. 2020, Algorithm 1 and Example 1): QSGD of the whole update.

        fedpaq(levels) = flat(dither(levels))

    One norm for the update; with ``scope`` ``tensor`` one per tensor,
    ``per_tensor(dither(levels))``. Its periodic averaging is ``temporal`` and its partial
    participation ``cohort``. Unbiased, no memory. Raises ``ValueError`` for another scope, and
    unless levels is 1 to 65535.

    Example:
        >>> from compressors import text
        >>> text(fedpaq(7)), text(fedpaq(7, "tensor"))
        ('flat(dither(7))', 'per_tensor(dither(7))')
    """
    check_one_of("fedpaq: scope", scope, ("model", "tensor"))
    codec = Pipeline(Identity(), Dither(levels))
    return Flat(codec) if scope == "model" else PerTensor(codec)


def cocktailsgd(p: float, drawn: float = 0.1, bits: int = 4) -> Compressor:
    """CocktailSGD (Wang et al. 2023, section 3): drawn at random, then the largest, then few bits.

        cocktailsgd(p, drawn, bits) =
            ef(per_tensor(subset(drawn, topk(p / drawn) | steps(bits) | golomb)))

    A fraction ``p`` of all entries travels, the largest of a random fraction ``drawn``. Positions
    count among those that were drawn. At p = drawn all of them travel:
    ``ef(per_tensor(subset(drawn, steps(bits))))``. Raises ``ValueError`` unless 0 < p <= drawn <= 1
    and bits is 2 to 8.

    Example:
        >>> from compressors import text
        >>> text(cocktailsgd(0.02))
        'ef(per_tensor(subset(0.1, topk(0.2) | steps(4) | golomb)))'
    """
    check_share("cocktailsgd: drawn", drawn)
    check_share("cocktailsgd: p", p)
    if p > drawn:
        raise ValueError(f"cocktailsgd: p is {p}: at most drawn, which is {drawn}")
    largest = Identity() if p == drawn else TopK(round(p / drawn, 12))
    return ErrorFeedback(PerTensor(Subset(drawn, Pipeline(largest, Steps(bits)))))


def demo(p: float, decay: float = 0.999, size: int = 64) -> Compressor:
    """DeMo (Peng et al. 2024, Algorithm 1): the largest cosine coefficients of a client's momentum.

        demo(p, decay, size) =
            ef(per_tensor(dct(size, chunk_topk(p, size * size) | float32 | golomb)), decay)

    The fading memory is the momentum, from which what was sent is taken away. The paper takes one
    step between messages (``temporal`` 1) and adds the sign of what all sent; here the server adds
    the mean. Raises ``ValueError`` for settings that the parts do not take.

    Example:
        >>> from compressors import text
        >>> text(demo(0.01))
        'ef(per_tensor(dct(64, chunk_topk(0.01) | float32 | golomb)), 0.999)'
    """
    coefficients = Pipeline(ChunkTopK(p, size * size), Float32())
    return ErrorFeedback(PerTensor(Cosine(size, coefficients)), decay)


_DRIVE = "Vargaftik et al. 2021"
_DEMO = "Peng et al. 2024"
_COCKTAIL = "Wang et al. 2023"
_SPARSELOCO = "Sarfi et al. 2025"
_FEDSCALAR = "Rostami & Kia 2024"
_EDEN = "Vargaftik et al. 2022"

RECENT = (
    # DRIVE and EDEN rotate the whole update, flat(rotate(lloyd(1))); here each tensor by itself.
    # Several clients' mean wants the unbiased scale, ef the one of least error. EDEN's fractions of
    # a bit are a random choice before it: rotate(randk(0.5) | lloyd(1)) takes half a bit per entry.
    Row("drive", "method", "drive(scale=unbiased) = rotate(lloyd(1, scale))",
        "DRIVE: rotated signs, a scale per block", f"{_DRIVE}, Algorithm 1", "drive()",
        differs="each tensor is rotated by itself, the paper rotates the whole update"),
    Row("eden", "method", "eden(bits=1, scale=unbiased) = rotate(lloyd(bits, scale))",
        "EDEN: rotated, the nearest level for normal values, a scale per block",
        f"{_EDEN}, Algorithm 1", "eden(2)",
        differs="each tensor is rotated by itself, the paper rotates the whole "
                "update; whole bits alone"),
    # of gradients, so temporal is 1 there; the majority vote is the strategy majority
    Row("signsgd", "method", "signsgd(step) = sign(step)",
        "signSGD: the sign of every entry; ef grows with larger updates",
        "Bernstein et al. 2018, Algorithm 1", "signsgd(0.01)",
        differs="of updates, which are gradients where n is 1; the vote is strategy "
                "majority"),
    Row("fedpaq", "method", "published:fedpaq",
        "FedPAQ: QSGD of the whole update, no memory", "Reisizadeh et al. 2020, Algorithm 1",
        "fedpaq(7)"),
    # 64 of 4,096 entries. The paper sends an index within a chunk in 12 bits, Golomb codes of gaps
    # take about 7.5 at this p. The decay stands for DiLoCo's outer momentum.
    Row("sparseloco", "method",
        "sparseloco(p=0.015625, decay=0.95, chunk=4096) = "
        "ef(chunk_topk(p, chunk) | bins(2) | golomb, decay)",
        "SparseLoCo: top-k within chunks, 2 bits, a memory that fades",
        f"{_SPARSELOCO}, Algorithm 1", "sparseloco(0.05, 0.9)",
        differs="Golomb codes of gaps, the paper's indices are 12 bits within a chunk"),
    Row("cocktailsgd", "method", "published:cocktailsgd",
        "CocktailSGD: drawn at random, then the largest, then 4 bits", f"{_COCKTAIL}, section 3",
        "cocktailsgd(0.05, 0.25)",
        differs="Golomb codes of positions among those that were drawn"),
    Row("demo", "method", "published:demo",
        "DeMo: the largest cosine coefficients of a fading memory", f"{_DEMO}, Algorithm 1",
        "demo(0.1, 0.9, 8)", portable=False,
        differs="the server adds the mean, the paper the sign of what all sent"),
    Row("subset", "codec", "whole.subset:Subset",
        "A random fraction of the entries before another codec", f"{_COCKTAIL}, section 3",
        "subset(0.3, topk(0.2) | float32 | golomb)"),
    Row("dct", "codec", "whole.rotate:Cosine",
        "A cosine transform of tiles before another codec", f"{_DEMO}, section 3",
        "dct(8, topk(0.2) | float32 | golomb)", portable=False),
    Row("chunk_topk", "sparsifier", "sparsify.chunks:ChunkTopK",
        "The fraction p of largest magnitude of every chunk", f"{_SPARSELOCO}; {_DEMO}",
        "chunk_topk(0.1, 64) | float32 | golomb"),
    Row("bins", "quantizer", "quantize.bins:Bins", "Even bins around the mean, and their means",
        _SPARSELOCO, "topk(0.3) | bins(2) | golomb"),
    Row("steps", "quantizer", "quantize.bins:Steps",
        "The nearest whole number of steps, int4 or int8, a step per bucket",
        _COCKTAIL, "steps(4, 64)"),
    Row("mx", "quantizer", "quantize.blockfloat:BlockFloat",
        "Floats of 4, 6 or 8 bits, a power of two per block (microscaling)",
        "Rouhani et al. 2023, section 2", "mx(e2m3)"),
    Row("fp8", "quantizer", "quantize.blockfloat:fp8",
        "FP8 (E4M3 or E5M2), a power of two per 32 values",
        "Micikevicius et al. 2022; Rouhani et al. 2023", "fp8(e5m2, nearest)"),
    Row("fp4", "quantizer", "quantize.blockfloat:fp4",
        "FP4 (E2M1), a power of two per 32 values", "Rouhani et al. 2023", "fp4(nearest)"),
    Row("lattice", "quantizer", "quantize.lattice:Lattice",
        "Pairs of values to points of a hexagonal lattice, dither taken off again",
        "Shlezinger et al. 2021, section III", "lattice(2) | huffman"),
    Row("uveqfed", "method", "uveqfed(bits=2) = lattice(bits) | ans",
        "UVeQFed: a dithered lattice, entropy-coded", "Shlezinger et al. 2021, section III",
        "uveqfed(3)",
        differs="each tensor by itself; symbols by range ANS"),
    Row("exponents", "symbols", "coders.exponents:Exponents",
        "Lossless floats: exponents by range ANS, the rest as it is",
        "Johnson 2022 (DietGPU); Hershcovitch et al. 2024", "float32 | exponents"),
    Row("ef21", "compressor", "whole.feedback:EF21",
        "EF21: differences, which strategy ef21 adds up; all others refuse it",
        "Richtárik et al. 2021, Algorithm 2", "ef21(topk(0.1) | float32 | golomb)"),
    Row("diana", "compressor", "whole.feedback:Diana",
        "DIANA: differences from a shift that learns, for strategy diana; all others refuse it",
        "Mishchenko et al. 2019, Algorithm 1", "diana(qsgd(7))"),
    Row("marina", "compressor", "whole.marina:Marina",
        "MARINA: dense, or how the gradient changed; strategy marina computes both",
        "Gorbunov et al. 2021, Algorithm 1", "marina(cnat, 0.1)",
        differs="gradients of a batch, in dense rounds too, where the paper takes all "
                "samples or a large batch"),
    Row("permk", "compressor", "whole.permk:PermK",
        "Perm-K: clients share out the entries by the order that strategy permk deals",
        "Szlendak et al. 2021, Definition 2", "permk(4)"),
    Row("fragments", "compressor", "whole.fragments:Fragments",
        "Layers in turn, a fragment of the model per message, for strategy diloco",
        "Douillard et al. 2025, section 2.2", "fragments(sparseloco, 3)",
        differs="a layer is the tensors of one module, the paper's is a transformer block"),
    Row("secagg", "compressor", "whole.masked_integers:MaskedIntegers",
        "Fixed point modulo 2**modulus, plus masks on which the clients of strategy secagg agree",
        "Bonawitz et al. 2017, Section 4", "secagg(16, 0.5, 24)"),
    Row("count_sketch", "codec", "whole.countsketch:CountSketch",
        "A count sketch: sums of entries with random signs; ef grows unless updates are sparse",
        "Charikar et al. 2002; Rothchild et al. 2020", "flat(count_sketch(0.05, 3, 40))"),
    Row("projections", "codec", "whole.projections:Projections",
        "k numbers: what the values have in common with k vectors of random signs",
        f"{_FEDSCALAR}, Algorithm 1", "flat(projections(4))"),
    Row("fedscalar", "method", "fedscalar(k=1) = flat(projections(k))",
        "FedScalar: one number for the whole update, and a seed", f"{_FEDSCALAR}, Algorithm 1",
        "fedscalar()",
        differs="the server's step is the strategy's, not the paper's own"),
    # momentum and the memory of what was not taken are the strategy's
    Row("fetchsgd", "method",
        "fetchsgd(p, rows=5, columns=1000) = flat(count_sketch(p, rows, columns))",
        "FetchSGD: a count sketch of the update, which strategy fetchsgd adds up",
        "Rothchild et al. 2020, Algorithm 1", "fetchsgd(0.05, 5, 60)",
        differs="momentum and the memory of what was not taken are strategy "
                "fetchsgd's"),
    Row("elias_gaps", "symbols", "coders.elias:EliasGaps",
        "QSGD's own format: gaps, signs and levels in Elias codes",
        "Alistarh et al. 2017, section 3.2", "qsgd(3) | elias_gaps"),
    Row("lloyd", "quantizer", "quantize.lloyd:Lloyd",
        "The nearest of 2^b levels for normal values, a scale per block of a rotation",
        f"{_DRIVE}; {_EDEN}", "rotate(lloyd(4, least))"),
)  # fmt: skip
"""Behind those of ``compressors.catalogue``, which says what a row is."""
