"""Theory as code: what is proved of the methods, and what it costs in bits on average.

``bound`` says of any method whether it is unbiased or a contraction, ``expected_bits`` what its
message takes for an ideal source. The other modules hold a paper each: ``dithering``,
``speedups`` (Horváth et al. 2022), ``positions``, ``sbc`` (Sattler et al. 2018), ``deepreduce``
(Kostopoulou et al. 2021).
``compressors.whole.growth`` says what a memory (``ef``) can stand around, and
``tables`` holds the papers' tables.
Plain numbers in and out. Nothing here counts what is sent: that is the length of the message.
"""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from compressors.bounds import Bound, bound, compose, compose_omegas
    from fedsim.measure.theory.bits import ExpectedBits, expected_bits

__all__ = ["Bound", "ExpectedBits", "bound", "compose", "compose_omegas", "expected_bits"]

make_lazy(__name__)
