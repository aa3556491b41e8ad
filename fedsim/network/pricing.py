"""A run's rounds on the clock of a network: the bits are known, only the times are computed."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from fedsim.network.clock import PARTS, round_times
from fedsim.network.quantities import Varying
from fedsim.network.spec import Links, Network

SECONDS = tuple(f"sim_{part}_seconds" for part in PARTS)
"""The columns of a client's parts of a round; in a round's row they are the cohort's means."""

CLIENT_COLUMNS = ("round", "client", "samples", "up_wire_bits", "down_wire_bits", "failures")

_MESSAGES = ("client", "up_wire_bits", "down_wire_bits")


def measured_iteration(rounds: pd.DataFrame) -> float:
    """Seconds per local iteration of one client, as the run measured them: the rounds' median.

    Args:
        rounds: `rounds.parquet`, whose `train_seconds` are sums over the cohort.

    Example:
        >>> measured_iteration(pd.DataFrame({
        ...     "train_seconds": [9.0, 2.0, 4.0], "clients": 2, "local_iterations": 10}))
        0.2
    """
    iterations = rounds["clients"] * rounds["local_iterations"]
    return float((rounds["train_seconds"] / iterations).median())


def price(
    rounds: pd.DataFrame, clients: pd.DataFrame, network: Network, federation: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A synchronous run's rounds and clients with their simulated seconds.

    Clients whose reply was not used have no part in the clock: the server does not wait for them.

    Args:
        rounds: `rounds.parquet`.
        clients: `clients.parquet`.
        network: the links.
        federation: how many clients there are.
        seed: of the run; the links that are drawn follow from it.

    Returns:
        `rounds` with `sim_seconds` (of the round), `sim_end_seconds` (the clock at its end) and
        the cohort's mean of each of `SECONDS`, which sum to `sim_seconds`; and the used rows of
        `clients` with `SECONDS`.

    Example:
        >>> from fedsim.network import parse
        >>> rounds = pd.DataFrame({
        ...     "round": [1], "clients": [1], "local_iterations": [10], "train_seconds": [0.5]})
        >>> clients = pd.DataFrame([[1, 0, 60, 800, 200, 0]], columns=CLIENT_COLUMNS)
        >>> priced, _ = price(rounds, clients, parse("up=1kbit, down=1kbit"), 1, seed=0)
        >>> priced.loc[0, ["sim_seconds", *SECONDS]].round(3).tolist()
        [1.5, 0.2, 0.5, 0.8, 0.0]
    """
    links = network.links(federation, seed, measured_iteration(rounds))
    used = clients[(clients["failures"] == 0) & (clients["samples"] > 0)]
    used = used.sort_values(["round", "client"], kind="stable").reset_index(drop=True)
    steps = rounds.set_index("round")["local_iterations"]
    parts = _at_once(links, used, steps) if _simple(links) else _in_turn(links, used, steps)
    used[list(SECONDS)] = parts
    by_round = used.assign(sim_seconds=parts.sum(axis=1)).groupby("round")
    means = by_round[list(SECONDS)].mean().reindex(rounds["round"])
    priced = rounds.assign(**{name: means[name].to_numpy() for name in SECONDS})
    priced["sim_seconds"] = by_round["sim_seconds"].max().reindex(rounds["round"]).to_numpy()
    priced["sim_end_seconds"] = priced["sim_seconds"].cumsum()
    return priced, used


def ends_over_rates(
    rounds: pd.DataFrame, clients: pd.DataFrame, network: Network, federation: int, seed: int,
    rates: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The clock at the end of every round, where all clients have one rate up and down.

    Args:
        rounds: as for `price`.
        clients: as for `price`.
        network: as for `price`; its own rates and trace are replaced.
        federation: as for `price`.
        seed: as for `price`.
        rates: in bits per second, shape (B,).

    Returns:
        Seconds, shape (rounds, B).
    """

    def at(rate: float) -> Network:
        constant = Varying("constant", float(rate))
        return replace(network, up=constant, down=constant, trace=None)

    if not _simple(at(1.0).links(federation, seed, 0.0)):  # clients share the server's link
        ends = [price(rounds, clients, at(rate), federation, seed)[0]["sim_end_seconds"]
                for rate in rates]  # fmt: skip
        return np.stack(ends, axis=1)
    _, used = price(rounds, clients, at(np.inf), federation, seed)  # what no rate changes
    fixed = used[list(SECONDS[:3])].sum(axis=1).to_numpy()
    bits = used[["up_wire_bits", "down_wire_bits"]].sum(axis=1).to_numpy()
    starts = np.flatnonzero(used["round"].diff().ne(0).to_numpy())
    seconds = np.maximum.reduceat(fixed[:, None] + bits[:, None] / rates, starts, axis=0)
    return np.cumsum(seconds, axis=0)


def _simple(links: Links) -> bool:
    """Whether a transfer depends neither on the time nor on the others."""
    limits = links.server_up, links.server_down
    return all(math.isinf(x) for x in limits) and all(
        rate.is_constant for rate in (*links.up, *links.down)
    )


def _at_once(links: Links, used: pd.DataFrame, steps: pd.Series) -> np.ndarray:
    """All rounds' parts at once: what `_in_turn` computes, for links that do not interact."""
    client = used["client"].to_numpy()
    up, down = (np.array([rate.values[0] for rate in rates])[client]
                for rates in (links.up, links.down))  # fmt: skip
    download = used["down_wire_bits"].to_numpy() / down + links.latency[client]
    compute = steps.loc[used["round"]].to_numpy() * links.compute[client]
    upload = used["up_wire_bits"].to_numpy() / up + links.latency[client]
    seconds = pd.Series(download + compute + upload)
    waiting = seconds.groupby(used["round"].to_numpy()).transform("max") - seconds
    return np.stack([download, compute, upload, waiting.to_numpy()], 1)


def _in_turn(links: Links, used: pd.DataFrame, steps: pd.Series) -> np.ndarray:
    """Round after round, each from the clock at the end of the one before."""
    parts, now = [np.zeros((0, len(PARTS)))], 0.0
    for number, rows in used.groupby("round"):
        clients, up, down = (rows[name].to_numpy() for name in _MESSAGES)
        times = round_times(links, clients, up, down, int(steps.loc[number]), now)
        parts.append(times.parts)
        now += times.seconds
    return np.concatenate(parts)
