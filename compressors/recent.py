"""Rows of the catalogue for methods that are not of the five papers, most of them newer."""

from compressors.row import Row

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
    Row("cocktailsgd", "method", "contrib.subset:cocktailsgd",
        "CocktailSGD: drawn at random, then the largest, then 4 bits", f"{_COCKTAIL}, section 3",
        "cocktailsgd(0.05, 0.25)",
        differs="Golomb codes of positions among those that were drawn", contrib=True),
    Row("demo", "method", "contrib.dct:demo",
        "DeMo: the largest cosine coefficients of a fading memory", f"{_DEMO}, Algorithm 1",
        "demo(0.1, 0.9, 8)", portable=False,
        differs="the server adds the mean, the paper the sign of what all sent", contrib=True),
    Row("subset", "codec", "contrib.subset:Subset",
        "A random fraction of the entries before another codec", f"{_COCKTAIL}, section 3",
        "subset(0.3, topk(0.2) | float32 | golomb)", contrib=True),
    Row("dct", "codec", "contrib.dct:Cosine",
        "A cosine transform of tiles before another codec", f"{_DEMO}, section 3",
        "dct(8, topk(0.2) | float32 | golomb)", portable=False, contrib=True),
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
    Row("diana", "compressor", "contrib.diana:Diana",
        "DIANA: differences from a shift that learns, for strategy diana; all others refuse it",
        "Mishchenko et al. 2019, Algorithm 1", "diana(qsgd(7))", contrib=True),
    Row("marina", "compressor", "contrib.marina:Marina",
        "MARINA: dense, or how the gradient changed; strategy marina computes both",
        "Gorbunov et al. 2021, Algorithm 1", "marina(cnat, 0.1)",
        differs="gradients of a batch, in dense rounds too, where the paper takes all "
                "samples or a large batch", contrib=True),
    Row("permk", "compressor", "contrib.permk:PermK",
        "Perm-K: clients share out the entries by the order that strategy permk deals",
        "Szlendak et al. 2021, Definition 2", "permk(4)", contrib=True),
    Row("fragments", "compressor", "whole.fragments:Fragments",
        "Layers in turn, a fragment of the model per message, for strategy diloco",
        "Douillard et al. 2025, section 2.2", "fragments(sparseloco, 3)",
        differs="a layer is the tensors of one module, the paper's is a transformer block"),
    Row("secagg", "compressor", "whole.masked_integers:MaskedIntegers",
        "Fixed point modulo 2**modulus, plus masks on which the clients of strategy secagg agree",
        "Bonawitz et al. 2017, Section 4", "secagg(16, 0.5, 24)"),
    Row("count_sketch", "codec", "contrib.count_sketch:CountSketch",
        "A count sketch: sums of entries with random signs; ef grows unless updates are sparse",
        "Charikar et al. 2002; Rothchild et al. 2020", "flat(count_sketch(0.05, 3, 40))",
        contrib=True),
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
                "fetchsgd's", contrib=True),
    Row("elias_gaps", "symbols", "coders.elias:EliasGaps",
        "QSGD's own format: gaps, signs and levels in Elias codes",
        "Alistarh et al. 2017, section 3.2", "qsgd(3) | elias_gaps"),
    Row("lloyd", "quantizer", "quantize.lloyd:Lloyd",
        "The nearest of 2^b levels for normal values, a scale per block of a rotation",
        f"{_DRIVE}; {_EDEN}", "rotate(lloyd(4, least))"),
)  # fmt: skip
"""Behind those of ``compressors.catalogue``, which says what a row is."""
