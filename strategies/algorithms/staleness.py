"""How much an update counts that was made from an older model: FedAsync's weights."""

from collections.abc import Callable
from dataclasses import dataclass

from compressors.grammar import read_call

_FORMS = "constant, polynomial(a) or hinge(a, b), such as polynomial(0.5)"


def weight(staleness: "Staleness | str") -> "Staleness":
    """The weight that a text names.

    Example:
        >>> weight("constant")
        Staleness(text='constant')
    """
    return Staleness(staleness) if isinstance(staleness, str) else staleness


@dataclass(frozen=True)
class Staleness:
    """A weight in (0, 1] by the steps that the server's model has made meanwhile; 1 for none.

        s(t) = 1                                             (constant)
        s(t) = (1 + t)^-a                                    (polynomial)
        s(t) = 1 for t <= b,  else 1 / (a (t - b) + 1)       (hinge)

    Here t is the staleness in steps of the server's model.

    Args:
        text: ``constant``, ``polynomial(a)`` or ``hinge(a, b)``. Neither ``a`` nor ``b`` is below
            0.

    Raises ``ValueError``, which says what is allowed.

    Source: Xie et al. 2019 (FedAsync), section 5.2; ``polynomial(0.5)`` is what Nguyen et al. 2022
    (FedBuff), section 3, use.

    Example:
        >>> [Staleness("polynomial(0.5)")(steps) for steps in (0, 3)]
        [1.0, 0.5]
        >>> [Staleness("hinge(1, 2)")(steps) for steps in (2, 5)]
        [1.0, 0.25]
    """

    text: str = "polynomial(0.5)"

    def __post_init__(self) -> None:
        self._rule()

    def __call__(self, steps: int) -> float:
        """The weight of an update that is so many steps old."""
        return self._rule()(steps)

    def _rule(self) -> Callable[[int], float]:
        try:
            call = read_call(self.text)
            name, arguments = call.name, [float(str(x)) for x in call.arguments]
        except ValueError:
            name, arguments = "", []
        if all(0 <= x < float("inf") for x in arguments):
            if name == "constant" and not arguments:
                return lambda steps: 1.0
            if name == "polynomial" and len(arguments) == 1:
                return lambda steps: float((1 + steps) ** -arguments[0])
            if name == "hinge" and len(arguments) == 2:
                a, b = arguments
                return lambda steps: 1.0 if steps <= b else 1 / (a * (steps - b) + 1)
        raise ValueError(f"staleness is {self.text!r}: a weight by staleness is {_FORMS}")
