"""SCAFFOLD's server: the model moves by the mean update, its control variate by all clients' share.

Model and control variate are one set of tensors that travels over the channel: the control variate
of ``w`` is called ``control/w``. So it is compressed, acknowledged and charged as the model is, in
both directions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from strategies.channel.traffic import Uplink, average

CONTROL = "control"
"""The prefix of the control variates' names."""


def with_controls(model: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The model and a zero control variate for each of its tensors.

    Example:
        >>> with_controls({"w": torch.ones(2)})
        {'w': tensor([1., 1.]), 'control/w': tensor([0., 0.])}
    """
    return {**model, **{f"{CONTROL}/{n}": torch.zeros_like(x) for n, x in model.items()}}


@dataclass(frozen=True)
class Scaffold:
    """The mean of the updates; the changes of the control variates over all clients' number.

    Source: Karimireddy et al. 2020 (SCAFFOLD), Algorithm 1, lines 16 and 17, global step size 1.

    Args:
        clients: of the federation, of which a round's cohort may be a part.
    """

    clients: int

    def __call__(self, uplinks: Mapping[int, Uplink], round_number: int) -> dict[str, Tensor]:
        """The global update of a round, from its uplinks by client."""
        share = len(uplinks) / self.clients
        mean = average(uplinks, "uniform")
        return {n: x * share if n.startswith(f"{CONTROL}/") else x for n, x in mean.items()}
