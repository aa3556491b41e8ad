"""The one table of everything that has a name: parts, compressors and published methods.

A row: the name, the kind, where the class or function lies in this package or what a method is
made of, a title, the source, and a method in which the row takes part. The parser, the command
line, the contract suite, the catalogue page and the benchmarks run over these rows.
"""

from difflib import get_close_matches
from importlib.util import find_spec

from compressors.grammar import NAME, Call
from compressors.row import Kind, Row
from compressors.usercode import content, import_beside, located, user_code

__all__ = ["CATALOGUE", "Kind", "ROWS", "Row", "add_rows", "own_rows", "row_files"]

SBC = "Sattler et al. 2018"
DROP = "Aji & Heafield 2017"
CNAT = "Horváth et al. 2022"
HUFFMAN = "Gajjala et al. 2020"
DEEPREDUCE = "Kostopoulou et al. 2021"
POWERSGD = "Vogels et al. 2019"
KONECNY = "Konečný et al. 2016"
_ELIAS = "Elias 1975; " + HUFFMAN
_DRIVE = "Vargaftik et al. 2021"
_DEMO = "Peng et al. 2024"
_COCKTAIL = "Wang et al. 2023"
_SPARSELOCO = "Sarfi et al. 2025"
_FEDSCALAR = "Rostami & Kia 2024"
_EDEN = "Vargaftik et al. 2022"

_EVERY = (
    # published methods, as sums of parts; at p = 1 positions would be bits for nothing
    Row("sbc", "method", "sbc(p) = ef(one_sided(p) | mean | golomb, mask=true); p = 1: raw",
        "Sparse Binary Compression", f"{SBC}, Algorithm 2", "sbc(0.01)",
        differs="exactly k entries, of ties the first; Golomb's parameter from the k / n that is "
                "sent"),
    Row("gradient_dropping", "method",
        "gradient_dropping(p, scope=tensor) = ef(topk(p) | float32 | golomb); scope = model: "
        "ef(flat(topk(p) | float32 | golomb)); p = 1: raw", "Gradient dropping",
        f"{DROP}, Algorithm 1", "gradient_dropping(0.01)",
        differs="a threshold per tensor, the paper's is global (scope=model); exactly k entries, "
                "not a sampled threshold; Golomb codes"),
    Row("ef_sign", "method", "ef_sign() = ef(l1_sign)",
        "Scaled signs with error feedback (EF-signSGD)", "Karimireddy et al. 2019, Algorithm 1",
        "ef_sign()"),
    Row("stc", "method", "stc(p) = ef(topk(p) | magnitude | golomb); p = 1: raw",
        "Sparse ternary compression", "Sattler et al. 2020", "stc(0.01)",
        differs="one way: the paper's goes both ways (--downlink)"),
    # the paper's momentum is the client's or the server's
    Row("powersgd", "method", "powersgd(rank) = ef(lowrank(rank))",
        "PowerSGD: low rank with error feedback", f"{POWERSGD}, Algorithms 1 and 2", "powersgd(2)",
        portable=False, differs="momentum is the clients' or the server's, the paper has its own"),
    # In the paper the client trains the masked entries alone; here the mask is put on the finished
    # update, which is the same for one local step and differs for several. Its low-rank
    # structure (one factor random, the other trained) lives in training too and is left out.
    Row("structured_mask", "method", "structured_mask(p) = randk(p, false) | float32; p = 1: raw",
        "Structured update: a random mask", f"{KONECNY}, section 2", "structured_mask(0.1)",
        differs="the mask is put on the finished update, the paper trains the masked entries "
                "alone (the same for one step); without its low-rank structure"),
    Row("sketched", "method",
        "sketched(p, bits=2) = rotate(randk(p) | minmax(bits)); p = 1: rotate(minmax(bits))",
        "Sketched update: rotated, subsampled, quantized", f"{KONECNY}, section 3",
        "sketched(0.25, 2)"),
    # Scaled by 1 / (1 + omega), as the paper has it where QSGD's noise exceeds its signal:
    # unscaled, the residual would grow without end from k = levels**2 entries on. 7 levels and
    # the sign fill 4 bits.
    Row("q_sparse", "method",
        "q_sparse(p, levels=7) = ef(topk(p) | shrink(dither(levels)) | golomb); p = 1: "
        "ef(shrink(dither(levels)))", "Qsparse-local-SGD: top-k, then QSGD",
        "Basu et al. 2019, section 3", "q_sparse(0.05, 7)",
        differs="always over 1 + omega, the paper where the noise exceeds the signal",
        contrib=True),
    # The paper does not say whether Tables 2 and 3 were trained with a memory; top-k does not
    # converge in general without one.
    Row("topk_cnat", "method", "topk_cnat(p) = ef(topk(p) | cnat | golomb); p = 1: ef(cnat)",
        "Top-k, then natural compression", f"{CNAT}, section 5.4", "topk_cnat(0.01)",
        differs="with a memory: the paper does not say whether its tables had one"),
    Row("lowrank", "compressor", "whole.lowrank:LowRank",
        "Matrices as two thin factors, warm started", f"{POWERSGD}, Algorithm 1", "lowrank(2)",
        portable=False,
        differs="the factors of one sender, the paper averages P before it is made orthonormal; "
                "each matrix is normalised by itself"),
    Row("dgc", "compressor", "whole.dgc:DGC",
        "DGC: top-k of momentum residuals; needs clients without momentum and n = 1",
        "Lin et al. 2018, section 3", "dgc(0.01)",
        differs="exactly k entries, not a sampled threshold; stages count messages, the paper's "
                "are epochs; Golomb codes"),
    Row("rotate", "codec", "whole.rotate:Rotate", "A random Hadamard rotation before another codec",
        f"{KONECNY}, section 3", "rotate(randk(0.25) | minmax(4))"),
    # whole compressors
    Row("raw", "compressor", "whole.raw:Raw", "Every entry as float32: dense", "reference", "raw"),
    Row("per_tensor", "compressor", "whole.lift:PerTensor",
        "A codec on each tensor (local threshold)", f"{DROP}, section 4",
        "per_tensor(topk(0.01) | float32 | golomb)"),
    Row("flat", "compressor", "whole.lift:Flat", "A codec on the whole update (global threshold)",
        f"{DROP}, section 4", "flat(topk(0.01) | float32 | golomb)"),
    Row("by_name", "compressor", "whole.lift:ByName", "Rules by name or size of a tensor", "fedsim",
        "by_name('size<256', raw, '*', sbc(0.01))"),
    Row("ef", "compressor", "whole.feedback:ErrorFeedback",
        "Residual accumulation (error feedback)", f"{SBC}, equation 2",
        "ef(per_tensor(topk(0.01) | float32 | golomb))"),
    # which entries travel
    Row("identity", "sparsifier", "sparsify.threshold:Identity", "Every entry; may be left out",
        "reference", "identity | float32"),
    Row("topk", "sparsifier", "sparsify.topk:TopK",
        "The fraction p of largest magnitude; exact, or by a sample", f"{DROP}, section 4",
        "topk(0.01) | float32 | golomb"),
    Row("one_sided", "sparsifier", "sparsify.topk:OneSided",
        "The largest or the smallest fraction p", f"{SBC}, Algorithm 2",
        "one_sided(0.01) | float32 | golomb"),
    Row("dryden", "sparsifier", "contrib.sparsifiers:Dryden",
        "The fraction p of either sign, largest first", "Dryden et al. 2016",
        "dryden(0.01) | float32 | golomb", contrib=True),
    Row("threshold", "sparsifier", "sparsify.threshold:Threshold", "Entries of magnitude t or more",
        "Strom 2015", "threshold(7.5) | float32 | golomb"),
    Row("nonzero", "sparsifier", "sparsify.threshold:Nonzero", "Every entry that is not zero",
        "reference", "nonzero | float32 | golomb"),
    Row("blocks", "sparsifier", "sparsify.blocks:Blocks",
        "Blocks of b entries that hold a non-zero, or the largest", "Fei et al. 2020 (OmniReduce)",
        "blocks(8, 0.1) | float32 | golomb"),
    Row("randk", "sparsifier", "sparsify.randk:RandK",
        "A random fraction p, positions from the seed", "Konečný et al. 2016; Stich et al. 2018",
        "randk(0.1) | float32"),
    Row("bernoulli", "sparsifier", "sparsify.randk:Bernoulli", "Each entry with probability q",
        f"{CNAT}, Table 1", "bernoulli(0.1) | float32"),
    Row("gspar", "sparsifier", "contrib.sparsifiers:GSpar",
        "Each entry with a chance in proportion to its magnitude", "Wangni et al. 2018, section 3",
        "gspar(0.1) | float32 | golomb", contrib=True),
    Row("rtopk", "sparsifier", "contrib.sparsifiers:RTopK",
        "A random fraction p out of the largest fraction m",
        "Barnes et al. 2020; Elibol et al. 2020", "rtopk(0.05, 0.2) | float32 | golomb",
        contrib=True),
    # what stands for their values
    Row("float32", "quantizer", "quantize.floats:Float32", "Values as they are, 32 bits each",
        "IEEE 754", "topk(0.1) | float32 | golomb"),
    Row("mean", "quantizer", "quantize.magnitudes:Mean", "One mean per tensor, no bits per value",
        f"{SBC}, Algorithm 2", "one_sided(0.01) | mean | golomb"),
    Row("cnat", "quantizer", "quantize.natural:Natural",
        "Natural compression: signs and powers of two, 9 bits", f"{CNAT}, Definition 1", "cnat"),
    Row("float16", "quantizer", "quantize.floats:Float16", "Half precision, 16 bits each",
        "IEEE 754", "topk(0.1) | float16 | golomb"),
    Row("bfloat16", "quantizer", "quantize.floats:BFloat16",
        "The upper half of a float32, 16 bits each", "reference", "topk(0.1) | bfloat16 | golomb"),
    Row("then", "quantizer", "quantize.compose:Then", "One quantizer on top of another",
        f"{CNAT}, Theorem 5", "topk(0.1) | then(bfloat16, cnat(8)) | golomb"),
    Row("shrink", "quantizer", "quantize.compose:Shrink",
        "An unbiased quantizer over 1 + omega: a contraction", "Basu et al. 2019",
        "ef(topk(0.1) | shrink(qsgd(7)) | golomb)"),
    Row("dither", "quantizer", "quantize.dither:Dither",
        "General random dithering, sign and level in one symbol", f"{CNAT}, Definition 6",
        "dither(7, 1, natural, bucket=64, norm_code=cnat)"),
    Row("qsgd", "quantizer", "quantize.dither:qsgd", "QSGD: standard dithering in the 2-norm",
        "Alistarh et al. 2017, section 3.1", "topk(0.1) | qsgd(15) | golomb"),
    Row("natural_dither", "quantizer", "quantize.dither:natural_dither",
        "Natural dithering: powers of two as levels", f"{CNAT}, section 3.2", "natural_dither(7)"),
    Row("terngrad", "quantizer", "quantize.dither:TernGrad",
        "TernGrad: sign or zero, after clipping", "Wen et al. 2017, equations 3 to 9", "terngrad"),
    Row("minmax", "quantizer", "quantize.grid:MinMax",
        "Random rounding to even levels between the extremes", "Konečný et al. 2016, section 3",
        "minmax(4)"),
    Row("codebook", "quantizer", "quantize.grid:Codebook",
        "Random rounding to a grid of b bits and step delta", f"{HUFFMAN}, equation 1",
        "codebook(6, 0.25)"),
    Row("cint", "quantizer", "contrib.quantizers:RandomInteger", "Random rounding to whole numbers",
        f"{CNAT}, Theorem 4", "cint", contrib=True),
    Row("sign", "quantizer", "quantize.sign:Sign",
        "The sign and a magnitude that is known, 1 bit (signSGD); ef grows with larger updates",
        "Bernstein et al. 2018, Algorithm 1", "sign(0.5)"),
    Row("l1_sign", "quantizer", "quantize.sign:ScaledSign",
        "The sign and the mean magnitude, 1 bit (EF-signSGD)", "Karimireddy et al. 2019, section 4",
        "l1_sign"),
    Row("onebit", "quantizer", "contrib.quantizers:OneBit",
        "The means of both signs in each column, 1 bit (1-bit SGD)", "Seide et al. 2014, section 3",
        "onebit", contrib=True),
    Row("magnitude", "quantizer", "quantize.magnitudes:SharedMagnitude",
        "The sign and a shared magnitude after dropping, 1 or 2 bits; ef around min grows slowly",
        f"{DROP}, section 5.4", "topk(0.1) | magnitude(min, 2) | golomb"),
    Row("ternary", "quantizer", "quantize.magnitudes:ternary",
        "The sign and the mean magnitude of the kept entries", "Sattler et al. 2020",
        "topk(0.1) | ternary() | golomb"),
    Row("sketch", "quantizer", "quantize.sketch:Sketch",
        "Quantile buckets and their means (SketchML)", "Jiang et al. 2018, section 3.2",
        "sketch(16)"),
    # how positions and symbols are written
    Row("golomb", "positions", "coders.golomb:Golomb", "Golomb (Rice) codes of gaps",
        f"{SBC}, Algorithms 3 and 4", "topk(0.01) | float32 | golomb(0.02)"),
    Row("raw32", "positions", "coders.fixed:Raw32", "Positions of 32 bits", "reference",
        "topk(0.1) | float32 | raw32"),
    Row("delta16", "positions", "coders.gaps:Delta16", "Gaps of 16 bits with an escape",
        "reference", "topk(0.1) | float32 | delta16"),
    Row("bitmap", "positions", "coders.fixed:Bitmap", "One bit per entry",
        f"reference; {DEEPREDUCE}", "topk(0.4) | float32 | bitmap"),
    Row("auto", "positions", "coders.auto:Auto",
        "The shortest of many position codes, one byte says which", "this project",
        "topk(0.1) | float32 | auto"),
    Row("fixed", "coder", "coders.fixed:Fixed", "Positions or symbols of equal width", "reference",
        "topk(0.1) | float32 | fixed | fixed"),
    Row("elias_gamma", "coder", "coders.elias:EliasGamma", "Elias gamma codes of gaps or symbols",
        _ELIAS, "topk(0.1) | dither(7) | elias_gamma | elias_gamma"),
    Row("elias_delta", "coder", "coders.elias:EliasDelta", "Elias delta codes of gaps or symbols",
        _ELIAS, "topk(0.1) | dither(7) | elias_delta | elias_delta"),
    Row("elias_omega", "coder", "coders.elias:EliasOmega", "Elias omega codes of gaps or symbols",
        _ELIAS, "topk(0.1) | dither(7) | elias_omega | elias_omega"),
    Row("rle", "coder", "coders.runlength:RunLength",
        "Run lengths of the bitmap, or of equal symbols", f"{HUFFMAN}; {DEEPREDUCE}",
        "topk(0.4) | ternary | rle | rle"),
    Row("context", "positions", "coders.context:Context",
        "Context-adaptive range coding of a grid of positions", "this project",
        "topk(0.01) | float32 | context"),
    Row("huffman", "coder", "coders.huffman:Huffman",
        "Canonical Huffman codes of symbols, or of classes of gaps", f"{HUFFMAN}, section 2.2",
        "topk(0.1) | float32 | huffman | huffman"),
    Row("index_huffman", "positions", "coders.huffman:IndexHuffman",
        "Huffman codes of the bytes of indices", f"{DEEPREDUCE}, appendix",
        "topk(0.1) | float32 | index_huffman"),
    Row("delta_huffman", "positions", "coders.huffman:DeltaHuffman",
        "Steps between indices in whole bytes", "Jiang et al. 2020 (SKCompress)",
        "topk(0.1) | float32 | delta_huffman"),
    Row("sh", "symbols", "coders.sample_huffman:SampleHuffman",
        "Huffman codes by a sample of the symbols", f"{HUFFMAN}, section 3.2", "qsgd(7) | sh"),
    Row("shs", "symbols", "coders.sample_huffman:SparseHuffman",
        "Huffman codes of symbols and runs of zeros, by a sample", f"{HUFFMAN}, section 3.3",
        "qsgd(7) | shs(5)"),
    Row("rlh", "symbols", "coders.runlength:RunLengthHuffman", "Huffman codes of runs",
        f"{HUFFMAN}, section 3.1", "qsgd(3) | rlh"),
    Row("ans", "coder", "coders.rans:Ans",
        "Range ANS of symbols, or of classes of gaps, by their frequencies", "Duda 2009",
        "topk(0.1) | float32 | ans | ans"),
    Row("deflate", "symbols", "coders.zipped:Deflate", "Symbols through zlib", DEEPREDUCE,
        "topk(0.1) | float32 | deflate", portable=False),
    Row("zstd", "symbols", "coders.zipped:Zstd", "Symbols through zstd", "RFC 8878",
        "topk(0.1) | float32 | zstd", portable=False, needs="zstandard"),
    # DeepReduce, and what it is compared with
    Row("bloom", "positions", "coders.bloom:Bloom",
        "A Bloom filter of the positions; lossy by policy", f"{DEEPREDUCE}, section 4",
        "topk(0.1) | float32 | bloom(0.01, p2)"),
    Row("fit_poly", "quantizer", "quantize.curvefit:FitPoly",
        "Sorted values as piecewise polynomials", f"{DEEPREDUCE}, section 5",
        "topk(0.5) | fit_poly(2, 4) | golomb"),
    Row("fit_dexp", "quantizer", "quantize.curvefit:FitDExp",
        "Sorted magnitudes as a double exponential", f"{DEEPREDUCE}, section 5",
        "topk(0.5) | fit_dexp | golomb"),
    Row("threelc", "codec", "whole.threelc:ThreeLC",
        "3LC: ternary, five entries per byte, runs of zeros", "Lim et al. 2019, section 3",
        "ef(threelc(1.75))"),
    Row("sketchml", "codec", "whole.sketchml:SketchML",
        "SketchML: quantile buckets in MinMaxSketches, delta keys", "Jiang et al. 2018, section 3",
        "ef(sketchml(0.3, 16, 4))",
        differs="quantiles are exact; a bucket arrives as its values' mean, the paper's as the "
                "middle of its two ends"),
    # DeepReduce's set-up: without the grouped MinMaxSketch and without buckets for each sign, "as
    # they have only minor effects"
    Row("skcompress", "method",
        "skcompress(p, buckets=128) = ef(topk(p) | sketch(buckets) | delta_huffman | huffman); p "
        "= 1: ef(nonzero | sketch(buckets) | delta_huffman | huffman)",
        "SKCompress: quantile buckets and delta keys by Huffman",
        f"Jiang et al. 2020; {DEEPREDUCE}, section 6.3", "skcompress(0.1, 16)",
        differs="without the grouped MinMaxSketch, as DeepReduce sets it up; signs have buckets of "
                "their own, as in SKCompress; a bucket arrives as its values' mean"),
    Row("deepreduce", "method", "published:deepreduce",
        "DeepReduce: a coder for indices, a coder for values", f"{DEEPREDUCE}, Table 3",
        "deepreduce(0.1, bloom_p0, 'qsgd')",
        differs="eight pieces of a curve, not the paper's count, which depends on scale; "
                "bloom_naive is refused with its memory"),
    # methods that are not of the five papers, most of them newer
    # DRIVE and EDEN rotate the whole update, flat(rotate(lloyd(1))); here each tensor by itself.
    # Several clients' mean wants the unbiased scale, ef the one of least error. EDEN's fractions of
    # a bit are a random choice before it: rotate(randk(0.5) | lloyd(1)) takes half a bit per entry.
    Row("drive", "method", "drive(scale=unbiased) = rotate(lloyd(1, scale))",
        "DRIVE: rotated signs, a scale per block", f"{_DRIVE}, Algorithm 1", "drive()",
        differs="each tensor is rotated by itself, the paper rotates the whole update"),
    Row("eden", "method", "eden(bits=1, scale=unbiased) = rotate(lloyd(bits, scale))",
        "EDEN: rotated, the nearest level for normal values, a scale per block",
        f"{_EDEN}, Algorithm 1", "eden(2)",
        differs="each tensor is rotated by itself, the paper rotates the whole update; whole bits "
                "alone"),
    # of gradients, so temporal is 1 there; the majority vote is the strategy majority
    Row("signsgd", "method", "signsgd(step) = sign(step)",
        "signSGD: the sign of every entry; ef grows with larger updates",
        "Bernstein et al. 2018, Algorithm 1", "signsgd(0.01)",
        differs="of updates, which are gradients where n is 1; the vote is strategy majority"),
    Row("fedpaq", "method",
        "fedpaq(levels=1, scope=model) = flat(dither(levels)); scope = tensor: dither(levels)",
        "FedPAQ: QSGD of the whole update, no memory", "Reisizadeh et al. 2020, Algorithm 1",
        "fedpaq(7)"),
    # 64 of 4,096 entries. The paper sends an index within a chunk in 12 bits, Golomb codes of gaps
    # take about 7.5 at this p. The decay stands for DiLoCo's outer momentum.
    Row("sparseloco", "method",
        "sparseloco(p=0.015625, decay=0.95, chunk=4096) = ef(chunk_topk(p, chunk) | bins(2) | "
        "golomb, decay)", "SparseLoCo: top-k within chunks, 2 bits, a memory that fades",
        f"{_SPARSELOCO}, Algorithm 1", "sparseloco(0.05, 0.9)",
        differs="Golomb codes of gaps, the paper's indices are 12 bits within a chunk"),
    Row("cocktailsgd", "method", "contrib.subset:cocktailsgd",
        "CocktailSGD: drawn at random, then the largest, then 4 bits", f"{_COCKTAIL}, section 3",
        "cocktailsgd(0.05, 0.25)", differs="Golomb codes of positions among those that were drawn",
        contrib=True),
    Row("demo", "method", "contrib.dct:demo",
        "DeMo: the largest cosine coefficients of a fading memory", f"{_DEMO}, Algorithm 1",
        "demo(0.1, 0.9, 8)", portable=False,
        differs="the server adds the mean, the paper the sign of what all sent; of a vector the "
                "largest of size * size coefficients, in the paper of each tile", contrib=True),
    Row("subset", "codec", "contrib.subset:Subset",
        "A random fraction of the entries before another codec", f"{_COCKTAIL}, section 3",
        "subset(0.3, topk(0.2) | float32 | golomb)", contrib=True),
    Row("dct", "codec", "contrib.dct:Cosine", "A cosine transform of tiles before another codec",
        f"{_DEMO}, section 3", "dct(8, topk(0.2) | float32 | golomb)", portable=False,
        differs="the last tiles are smaller, the paper's sides are divisors of the tensor's",
        contrib=True),
    Row("chunk_topk", "sparsifier", "sparsify.blocks:ChunkTopK",
        "The fraction p of largest magnitude of every chunk", f"{_SPARSELOCO}; {_DEMO}",
        "chunk_topk(0.1, 64) | float32 | golomb"),
    Row("bins", "quantizer", "quantize.bins:Bins", "Even bins around the mean, and their means",
        _SPARSELOCO, "topk(0.3) | bins(2) | golomb"),
    Row("steps", "quantizer", "quantize.bins:Steps",
        "The nearest whole number of steps, int4 or int8, a step per bucket", _COCKTAIL,
        "steps(4, 64)"),
    Row("mx", "quantizer", "quantize.blockfloat:BlockFloat",
        "Floats of 4, 6 or 8 bits, a power of two per block (microscaling)",
        "Rouhani et al. 2023, section 2", "mx(e2m3)"),
    Row("fp8", "quantizer", "quantize.blockfloat:fp8",
        "FP8 (E4M3 or E5M2), a power of two per 32 values",
        "Micikevicius et al. 2022; Rouhani et al. 2023", "fp8(e5m2, nearest)"),
    Row("fp4", "quantizer", "quantize.blockfloat:fp4", "FP4 (E2M1), a power of two per 32 values",
        "Rouhani et al. 2023", "fp4(nearest)"),
    Row("fp4_e3m0", "quantizer", "quantize.blockfloat:fp4_e3m0",
        "FP4 (E3M0), a sign times a power of two, a scale per 32 values",
        "Douillard et al. 2025, section 2.4", "fp4_e3m0(nearest)"),
    Row("lattice", "quantizer", "quantize.lattice:Lattice",
        "Pairs of values to points of a hexagonal lattice, dither taken off again",
        "Shlezinger et al. 2021, section III", "lattice(2) | huffman"),
    Row("uveqfed", "method", "uveqfed(bits=2) = lattice(bits) | ans",
        "UVeQFed: a dithered lattice, entropy-coded", "Shlezinger et al. 2021, section III",
        "uveqfed(3)",
        differs="each tensor by itself; the rate sets a cell's area, in the paper a fixed number "
                "of points in a ball; symbols by range ANS"),
    Row("exponents", "symbols", "coders.rans:Exponents",
        "Lossless floats: exponents by range ANS, the rest as it is",
        "Johnson 2022 (DietGPU); Hershcovitch et al. 2024", "float32 | exponents"),
    Row("ef21", "compressor", "whole.feedback:EF21",
        "EF21: differences, which strategy ef21 adds up; all others refuse it",
        "Richtárik et al. 2021, Algorithm 2", "ef21(topk(0.1) | float32 | golomb)"),
    Row("diana", "compressor", "contrib.diana:Diana",
        "DIANA: differences from a shift that learns, for strategy diana; all others refuse it",
        "Mishchenko et al. 2019, Algorithm 1", "diana(qsgd(7))",
        differs="without its momentum and its proximal step", contrib=True),
    Row("marina", "compressor", "contrib.marina:Marina",
        "MARINA: dense, or how the gradient changed; strategy marina computes both",
        "Gorbunov et al. 2021, Algorithm 1", "marina(cnat, 0.1)",
        differs="gradients of a batch, in dense rounds too, where the paper takes all samples or "
                "a large batch", contrib=True),
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
        "fedscalar()", differs="the server's step is the strategy's, not the paper's own"),
    # momentum and the memory of what was not taken are the strategy's
    Row("fetchsgd", "method",
        "fetchsgd(p, rows=5, columns=1000) = flat(count_sketch(p, rows, columns))",
        "FetchSGD: a count sketch of the update, which strategy fetchsgd adds up",
        "Rothchild et al. 2020, Algorithm 1", "fetchsgd(0.05, 5, 60)",
        differs="momentum and the memory of what was not taken are strategy fetchsgd's",
        contrib=True),
    Row("elias_gaps", "symbols", "coders.elias:EliasGaps",
        "QSGD's own format: gaps, signs and levels in Elias codes",
        "Alistarh et al. 2017, section 3.2", "qsgd(3) | elias_gaps"),
    Row("lloyd", "quantizer", "quantize.lloyd:Lloyd",
        "The nearest of 2^b levels for normal values, a scale per block of a rotation",
        f"{_DRIVE}; {_EDEN}", "rotate(lloyd(4, least))"),
)  # fmt: skip

CATALOGUE: dict[str, Row] = {row.name: row for row in _EVERY}
"""Every row by its name. A user's own rows go here too (``docs/own-compressor.md``)."""

_OURS = dict(CATALOGUE)


def own_rows() -> dict[str, Row]:
    """The rows that a user added or replaced.

    Example:
        >>> own_rows()
        {}
    """
    return {name: row for name, row in CATALOGUE.items() if _OURS.get(name) is not row}


_FILES: dict[str, tuple[Row, str]] = {}


def row_files() -> dict[str, str]:
    """The digest, when it was executed, of the file of each of the user's rows that has one.

    The digest is ``compressors.usercode.content``.

    Example:
        >>> row_files()
        {}
    """
    return {name: digest for name, (row, digest) in _FILES.items() if CATALOGUE.get(name) is row}


def check_names(method: Call) -> None:
    """Raises ``ValueError`` for a name in a method's text without a row; needs no torch.

    Example:
        >>> from compressors.grammar import read_call
        >>> check_names(read_call("ef(topk(0.1) | float32)"))
        >>> check_names(read_call("ef(topk(0.1) | float23)"))
        Traceback (most recent call last):
        ValueError: unknown name 'float23': did you mean 'float32'? `fedsim list methods` prints \
them all; --rows FILE.py adds those of a file
    """
    for part in method.arguments if method.name == "|" else [method]:
        if NAME.fullmatch(part.name) and part.name not in CATALOGUE:
            near = get_close_matches(part.name.lower(), CATALOGUE, n=1)
            some = "known are sbc, gradient_dropping, raw, ...: "
            guess = f"did you mean {near[0]!r}? " if near else some
            problem = f"unknown name {part.name!r}: {guess}`fedsim list methods` prints them all"
            raise ValueError(f"{problem}; --rows FILE.py adds those of a file")
        for inside in (*part.arguments, *part.named.values()):
            if inside.called or inside.name == "|":
                check_names(inside)


def add_rows(place: str) -> None:
    """Executes a Python file, or every file of a folder, that adds rows to ``CATALOGUE``.

    Its definitions are in no module that can be imported, so that they travel to other processes by
    value. Raises ``ValueError`` where there is no such file, or where it cannot be carried out.
    """
    from pathlib import Path
    from runpy import run_path

    path = Path(place)
    files = sorted(path.glob("*.py")) if path.is_dir() else [path] if path.is_file() else []
    if not files:
        raise ValueError(f"there is no Python file {place}")
    for file in files:
        before = dict(CATALOGUE)
        try:
            digest = content(file)
            with user_code(), import_beside(file):
                run_path(str(file), run_name="rows_of_a_user")
        except Exception as error:
            raise ValueError(f"{file}: {located(error)}") from error
        added = {name: row for name, row in CATALOGUE.items() if before.get(name) is not row}
        _FILES.update({name: (row, digest) for name, row in added.items()})


def _usable(row: Row) -> bool:
    """Whether the package that a row needs, if any, is on this machine."""
    try:
        return not row.needs or find_spec(row.needs) is not None
    except ImportError:  # a finder of its own refuses the package
        return False


ROWS: tuple[Row, ...] = tuple(row for row in _EVERY if _usable(row))
"""The rows of what can be made on this machine."""
