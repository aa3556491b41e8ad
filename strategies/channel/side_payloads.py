"""Side payloads of models and updates, each by its name.

A message holds them next to its payload, as bytes. One table has the rules by which each is
charged. All code that writes, reads, books or times them loops over those that a message has; the
round knows none of them.
"""

from typing import Literal, NamedTuple

BUFFERS = "buffers"
"""Tensors of the model that are not parameters, down or up (``buffers``)."""

ORDER = "order"
"""Down: what the server wants of this client, where that moves from round to round (``orders``)."""

REPORT = "report"
"""Up: what the client was asked to say, as float32 numbers (``orders``)."""

APPLIED = "applied"
"""Down: which of the client's own uplinks was applied last (``acknowledge``)."""

OUTCOME = "fate"
"""Up: whether the client's previous message was taken back or lost, if it was not applied
(``acknowledge``)."""


KEYS = "keys"
"""Both ways: keys and shares of secure aggregation (``strategies.algorithms.secagg``)."""


class Charge(NamedTuple):
    """How a side payload is booked.

    ``column``: of results, behind ``up_`` or ``down_``; ``directions``: in which it travels;
    ``wire``: whether it is in the columns ``wire`` and takes time on a simulated clock; ``model``:
    whether it is a part of the model, and free where the initial model is.
    """

    column: str
    directions: tuple[Literal["up", "down"], ...]
    wire: bool
    model: bool = False


CHARGES = {
    BUFFERS: Charge("buffer_bits", ("up", "down"), wire=True, model=True),
    ORDER: Charge("order_bits", ("down",), wire=True),
    REPORT: Charge("report_bits", ("up",), wire=True),
    KEYS: Charge("key_bits", ("up", "down"), wire=True),
    APPLIED: Charge("news_bits", ("down",), wire=False),
    OUTCOME: Charge("fate_bits", ("up",), wire=False),
}

USUAL = (BUFFERS, APPLIED, OUTCOME)
"""Those with a column in every channel's results, even if none travels."""
