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
    iterations: int, now: float,
) -> RoundTimes:  # fmt: skip
    """The times of one round in which everybody waits for the last.

    Downloads begin together; an upload begins when its client has trained. Uploads share the
    server's uplink among themselves, downloads its downlink. A message takes its latency even
    where it holds no charged bits: the server asks, and the client answers.

    Args:
        links: of all clients.
        clients: the cohort, numbers of clients, shape (k,).
        up_bits: the lengths of the uploads, shape (k,).
        down_bits: the lengths of the downloads, shape (k,).
        iterations: local iterations of the round.
        now: the clock when the round begins, in seconds; traces depend on it.

    Example:
        Two clients at 1 bit/s up; one computes for 2 s, the other for 5 s:

        >>> from fedsim.network.spec import parse
        >>> links = parse("up=1bit, compute=1s").links(2, seed=0, measured=0.0)
        >>> links.compute[1] = 2.5
        >>> times = round_times(links, np.arange(2), np.array([3, 4]), np.zeros(2), 2, 0.0)
        >>> times.seconds, times.parts.tolist()
        (9.0, [[0.0, 2.0, 3.0, 4.0], [0.0, 5.0, 4.0, 0.0]])
    """
    latency = links.latency[clients]
    start = np.full(len(clients), now)
    down, up = ([rates[c] for c in clients] for rates in (links.down, links.up))
    received = transfers(start, down_bits, down, links.server_down) + latency
    trained = received + iterations * links.compute[clients]
    arrived = transfers(trained, up_bits, up, links.server_up) + latency
    end = arrived.max()
    parts = np.stack([received - start, trained - received, arrived - trained, end - arrived], 1)
    return RoundTimes(parts, float(end - now))
