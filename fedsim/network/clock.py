"""Simulated time of synchronous rounds, computed from message lengths and never slept.

A round begins when the server sends, and ends when the last used upload has arrived. A client's
part of it is download, compute, upload, and waiting for the others; the four sum to the round.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.network.sharing import transfers
from fedsim.network.spec import Links

PARTS = ("download", "compute", "upload", "waiting")


@dataclass(frozen=True)
class RoundTimes:
    """The seconds of one round.

    Args:
        parts: of each client of the cohort, shape (k, 4), in the order of `PARTS`.
        seconds: of the round; every row of `parts` sums to it.
    """

    parts: np.ndarray
    seconds: float


def round_times(
    links: Links, clients: np.ndarray, up_bits: np.ndarray, down_bits: np.ndarray,
    iterations: np.ndarray, now: float, used: np.ndarray,
) -> RoundTimes:  # fmt: skip
    """The times of one round in which everybody waits for the last that is used.

    Downloads begin together; an upload begins when its client has trained. Uploads share the
    server's uplink among themselves, downloads its downlink. A message takes its latency even
    where it holds no charged bits: the server asks, and the client answers.

    Args:
        links: of all clients.
        clients: the cohort, numbers of clients, shape (k,).
        up_bits: the lengths of the uploads, shape (k,).
        down_bits: the lengths of the downloads, shape (k,).
        iterations: local iterations of each client, shape (k,).
        now: the clock when the round begins, in seconds; traces depend on it.
        used: whose update is used, shape (k,), bool; the others download, and no more is known.

    Returns:
        The parts of those that are used; 0 seconds where nobody is.

    Example:
        Two clients at 1 bit/s up; one computes for 2 s, the other for 5 s:

        >>> from fedsim.network.spec import parse
        >>> links = parse("up=1bit, compute=1s").links(2, seed=0, measured=0.0)
        >>> links.compute[1] = 2.5
        >>> both, steps = np.array([True, True]), np.array([2, 2])
        >>> times = round_times(links, np.arange(2), np.array([3, 4]), np.zeros(2), steps, 0.0, both)
        >>> times.seconds, times.parts.tolist()
        (9.0, [[0.0, 2.0, 3.0, 4.0], [0.0, 5.0, 4.0, 0.0]])
    """
    start = np.full(len(clients), now)
    down = [links.down[c] for c in clients]
    ended = transfers(start, down_bits, down, links.server_down)[used]
    clients, start = clients[used], start[used]
    received = ended + links.latency[clients]
    trained = received + iterations[used] * links.compute[clients]
    up = [links.up[c] for c in clients]
    arrived = transfers(trained, up_bits[used], up, links.server_up) + links.latency[clients]
    end = arrived.max(initial=now)
    parts = np.stack([received - start, trained - received, arrived - trained, end - arrived], 1)
    return RoundTimes(parts, float(end - now))
