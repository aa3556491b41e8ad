"""What sparsifiers of a fraction of the entries share."""

from dataclasses import dataclass
from typing import ClassVar

from compressors.base import nominal_count
from compressors.settings import check_flags, check_share, plain


@dataclass(frozen=True)
class Fraction:
    """Sends about the fraction ``p`` of the entries; ``ValueError`` unless 0 < p <= 1."""

    codec_id: ClassVar[str]
    p: float

    def __post_init__(self) -> None:
        plain(self)
        check_share(f"{self.codec_id}: p", self.p)

    def count(self, n: int) -> int:
        """k = max(1, round(p n)), the nominal number."""
        return nominal_count(self.p, n)


class Drawn:
    """Entries chosen by chance alone; what is ``seeded`` the receiver draws, too."""

    codec_id: ClassVar[str]
    one_sign: ClassVar[bool] = False
    unit: ClassVar[int] = 1
    scaled: bool
    seeded: bool

    def __post_init__(self) -> None:
        plain(self)
        check_flags(self.codec_id, scaled=self.scaled, seeded=self.seeded)

    @property
    def needs_seed(self) -> bool:
        """Whether the receiver draws the positions."""
        return self.seeded
