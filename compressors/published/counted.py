"""FetchSGD's clients: one count sketch of the whole update, and no memory."""

from compressors.base import Compressor
from compressors.whole.countsketch import CountSketch
from compressors.whole.lift import Flat


def fetchsgd(p: float, rows: int = 5, columns: int = 1000) -> Compressor:
    """FetchSGD's message (Rothchild et al. 2020, Algorithm 1): a count sketch of the update.

    ``flat(count_sketch(p, rows, columns))``. Sums of sketches, momentum and the memory of what was
    not taken are the strategy ``fetchsgd``'s, which takes the fraction p of entries from them.
    Raises as ``CountSketch``.

    Example:
        >>> from compressors import text
        >>> text(fetchsgd(0.01))
        'flat(count_sketch(0.01))'
    """
    return Flat(CountSketch(p, rows, columns))
