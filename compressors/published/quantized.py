"""Methods that send every entry in few bits and keep no memory: signSGD and FedPAQ."""

from compressors.base import Compressor
from compressors.quantize.dither import Dither
from compressors.quantize.sign import Sign
from compressors.settings import check_one_of
from compressors.sparsify.identity import Identity
from compressors.whole.lift import Flat, PerTensor
from compressors.whole.pipeline import Pipeline


def signsgd(step: float) -> Compressor:
    """signSGD (Bernstein et al. 2018, Algorithm 1): the sign of every entry, one bit.

    ``per_tensor(sign(step))``: the receiver adds ``step`` with the sign. The paper sends signs of
    gradients, so ``temporal`` is 1 there; its majority vote is the strategy ``majority``. Raises
    ``ValueError`` unless step is a float32 number above 0.

    Example:
        >>> from compressors import text
        >>> text(signsgd(0.003))
        'per_tensor(sign(0.003))'
    """
    return PerTensor(Pipeline(Identity(), Sign(step)))


def fedpaq(levels: int = 1, scope: str = "model") -> Compressor:
    """FedPAQ (Reisizadeh et al. 2020, Algorithm 1 and Example 1): QSGD of the whole update.

    ``flat(dither(levels))``: one norm for the update; with ``scope`` ``tensor`` one per tensor,
    ``per_tensor(dither(levels))``. Its periodic averaging is ``temporal`` and its partial
    participation ``cohort``. Unbiased, no memory. Raises ``ValueError`` for another
    scope, and unless levels is 1 to 65535.

    Example:
        >>> from compressors import text
        >>> text(fedpaq(7)), text(fedpaq(7, "tensor"))
        ('flat(dither(7))', 'per_tensor(dither(7))')
    """
    check_one_of("fedpaq: scope", scope, ("model", "tensor"))
    codec = Pipeline(Identity(), Dither(levels))
    return Flat(codec) if scope == "model" else PerTensor(codec)
