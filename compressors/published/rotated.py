"""DRIVE and EDEN: a random rotation, then the nearest level of a few, with a scale per block."""

from compressors.base import Compressor
from compressors.quantize.lloyd import Lloyd
from compressors.sparsify.identity import Identity
from compressors.whole.lift import PerTensor
from compressors.whole.pipeline import Pipeline
from compressors.whole.rotate import Rotate


def drive(scale: str = "unbiased") -> Compressor:
    """DRIVE (Vargaftik et al. 2021, Algorithm 1): one bit per entry of the rotated update.

    ``per_tensor(rotate(lloyd(1, scale)))``. ``scale`` is ``unbiased``, which several clients'
    mean wants, or ``least``, of least error, which ``ef`` wants. The paper rotates the whole
    update; here each tensor is rotated by itself (``flat(rotate(lloyd(1)))`` for all of it).
    Raises ``ValueError`` for another scale.

    Example:
        >>> from compressors import text
        >>> text(drive())
        'per_tensor(rotate(lloyd(1)))'
    """
    return eden(1, scale)


def eden(bits: int = 1, scale: str = "unbiased") -> Compressor:
    """EDEN (Vargaftik et al. 2022, Algorithm 1): ``bits`` per entry of the rotated update.

    ``per_tensor(rotate(lloyd(bits, scale)))``; see ``drive``. The paper's fractions of a bit are a
    random choice before it: ``per_tensor(rotate(randk(0.5) | lloyd(1)))`` takes half a bit per
    entry. Raises ``ValueError`` for bits outside 1 to 4 and for another scale.

    Example:
        >>> from compressors import text
        >>> text(eden(2, "least"))
        "per_tensor(rotate(lloyd(2, 'least')))"
    """
    return PerTensor(Rotate(Pipeline(Identity(), Lloyd(bits, scale))))
