"""Energy of clients: joules per bit of a message and per local iteration, and batteries."""

import math
from dataclasses import dataclass

import numpy as np

from fedsim.network.quantities import Varying

ENERGY_KEYS = ("energy_up", "energy_down", "energy_compute", "battery")
"""A network's settings of energy."""

NO_BATTERY = Varying("constant", math.inf)


@dataclass(frozen=True)
class EnergyRates:
    """The energy rates of every client, indexed by client.

    A client that is sent ``d`` bits, does ``n`` local iterations and sends ``u`` bits spends
    ``down d + iteration n + up u`` joules.

    Example:
        >>> one = np.ones(1)
        >>> EnergyRates(3 * one, one, 10 * one, 100 * one).joules(0, 5.0, 2, 4.0)
        37.0
    """

    # of shape (clients,)
    up: np.ndarray  # joules per bit that a client sends
    down: np.ndarray  # joules per bit that a client receives
    iteration: np.ndarray  # joules per local iteration
    battery: np.ndarray  # joules that a client has; inf: as many as it needs

    def joules(self, client: int, down_bits: float, iterations: float, up_bits: float) -> float:
        """The energy of a client for one request: its download, its local work and its upload."""
        return float(
            self.down[client] * down_bits
            + self.iteration[client] * iterations
            + self.up[client] * up_bits
        )
