"""A run's rounds on the clock of a network: the bits are known, only the times are computed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedsim.ground.records import DROPPED
from fedsim.network.clock import PARTS, Clock, Exchange
from fedsim.network.quantities import Varying
from fedsim.network.rates import ConstantRates, rates_at
from fedsim.network.spec import Links, NetworkSpec

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

SECONDS = tuple(f"sim_{part}_seconds" for part in PARTS)
"""The columns of a client's parts of a round; in a round's row they are the cohort's means."""

WIRE = ("up_wire_bits", "down_wire_bits")  # the columns of the bits that take their time
MESSAGES = ("up_message_bits", "down_message_bits")  # those with ``framing=on``

PRICED_COLUMNS = ("round", "client", "samples", "up_wire_bits", "down_wire_bits", "failures")


def measured_iteration(rounds: pd.DataFrame, used: pd.DataFrame) -> float:
    """Seconds per local iteration of one client, as the run measured them: the rounds' median.

    0 where no update of the run was used: it has measured none. In `rounds.parquet` `train_seconds`
    are sums over the cohort; ``used`` has a row per round and client whose update was used, with
    its `local_iterations`.
    """
    iterations = used.groupby("round")["local_iterations"].sum().reindex(rounds["round"])
    return float(np.nan_to_num((rounds["train_seconds"].to_numpy() / iterations).median()))


def coding_seconds(rounds: pd.DataFrame, network: NetworkSpec) -> tuple[float, float]:
    """Seconds of encoding and decoding per round, of a client and of the server: the medians.

    Clients code at once, and the server one message after the other. A server that relays messages
    codes none: what it decodes for its own copy of the model, nobody waits for.

    Args:
        rounds: `rounds.parquet` of a run with its column `downlink`.
        network: its `coding` is a factor on the run's measured seconds of coding.
    """
    if not network.coding:
        return 0.0, 0.0
    client_seconds = (rounds["encode_seconds"] + rounds["receive_seconds"]) / rounds["clients"]
    central = rounds["decode_seconds"] + rounds["downlink_seconds"] - rounds["receive_seconds"]
    waits = network.coding * float(rounds["downlink"].iloc[0] != "relay")
    seconds = float(np.nan_to_num(client_seconds.median()))  # NaN where no client's reply was used
    return network.coding * seconds, waits * float(central.median())


def price(
    rounds: pd.DataFrame, clients: pd.DataFrame, network: NetworkSpec, federation: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A synchronous run's rounds and clients with their simulated seconds.

    The server does not wait for clients whose reply did not arrive, but their downloads share its
    link with the others'. It waits for replies that arrived and were refused. With `framing=on` the
    bits are those of `MESSAGES`, else those of `WIRE`; a refused reply has those of its payload,
    `failed_up_bits`.

    Args:
        rounds: `rounds.parquet`; with its run's `downlink` where the network has `coding`.
        clients: `clients.parquet`; one that lacks `MESSAGES` has no price with `framing=on`.
        network: the links.
        federation: how many clients there are.
        seed: of the run; the links that are drawn follow from it.

    Returns:
        `rounds` with `sim_seconds` (of the round), `sim_end_seconds` (the clock at its end) and
        the cohort's mean of each of `SECONDS`, which sum to `sim_seconds`; and the used rows of
        `clients` with `SECONDS`.

    Example:
        >>> from fedsim.network import parse
        >>> import pandas as pd
        >>> rounds = pd.DataFrame({
        ...     "round": [1], "clients": [1], "local_iterations": [10], "train_seconds": [0.5]})
        >>> clients = pd.DataFrame([[1, 0, 60, 800, 200, 0]], columns=PRICED_COLUMNS)
        >>> priced, _ = price(rounds, clients, parse("up=1kbit, down=1kbit"), 1, seed=0)
        >>> priced.loc[0, ["sim_seconds", *SECONDS]].round(3).tolist()
        [1.5, 0.2, 0.5, 0.8, 0.0]
    """
    arrived = _waited_for(rounds, clients, network, federation, seed)
    used = arrived[arrived["failures"] == 0].reset_index(drop=True)
    means = used.groupby("round")[list(SECONDS)].mean().reindex(rounds["round"])
    priced = rounds.assign(**{name: means[name].to_numpy() for name in SECONDS})
    seconds = arrived[list(SECONDS)].sum(axis=1).groupby(arrived["round"]).max()
    priced["sim_seconds"] = seconds.reindex(rounds["round"], fill_value=0.0).to_numpy()
    priced["sim_end_seconds"] = priced["sim_seconds"].cumsum()
    return priced, used


def ends_over_rates(
    rounds: pd.DataFrame,
    clients: pd.DataFrame,
    network: NetworkSpec,
    federation: int,
    seed: int,
    rates: np.ndarray,
) -> np.ndarray:
    """The clock in seconds at the end of every round, where all have one rate: (rounds, B).

    Arguments are those of `price`; the network's own rates and trace are replaced by each of the
    ``rates``, in bits per second, shape (B,), up and down.
    """

    def at(rate: float) -> NetworkSpec:
        constant = Varying("constant", float(rate))
        return replace(network, up=constant, down=constant, trace=None)

    if not _simple(at(1.0).links(federation, seed, 0.0)):  # clients share the server's link
        ends = [
            price(rounds, clients, at(rate), federation, seed)[0]["sim_end_seconds"]
            for rate in rates
        ]
        return np.stack(ends, axis=1)
    import pandas as pd

    arrived = _waited_for(rounds, clients, at(np.inf), federation, seed)  # what no rate changes
    fixed = arrived[list(SECONDS[:3])].sum(axis=1).to_numpy()
    bits = arrived[list(_bits(network))].sum(axis=1).to_numpy()
    if network.topology == "allreduce":
        bits = bits * (federation - 1) / federation
    each = pd.DataFrame(fixed[:, None] + bits[:, None] / rates)
    seconds = each.groupby(arrived["round"].to_numpy()).max() + coding_seconds(rounds, network)[1]
    return seconds.reindex(rounds["round"], fill_value=0.0).cumsum().to_numpy()


def joules(
    rounds: pd.DataFrame, clients: pd.DataFrame, network: NetworkSpec, federation: int, seed: int
) -> np.ndarray:
    """What all clients together spend in each round of a synchronous run, shape (rounds,).

    A client whose reply did not come has spent its download alone, and its training where it
    dropped out after that, which `failure_reasons` of ``clients`` has. Arguments are those of
    `price`; the network has messages or iterations that take energy, and the FLOPs of an iteration.

    Example:
        >>> from fedsim.network import parse
        >>> import pandas as pd
        >>> rounds = pd.DataFrame({"round": [1], "local_iterations": [10]})
        >>> clients = pd.DataFrame([[1, 0, 60, 800, 200, 0]], columns=PRICED_COLUMNS)
        >>> network = parse("compute=1s, energy_up=2J/bit, energy_down=1J/bit, energy_compute=5W")
        >>> joules(rounds, clients, network, 1, seed=0).tolist()
        [1850.0]
    """
    requests, _, arrived = _requests_of(rounds, clients, network)
    rates, client = network.energy(federation, seed), requests["client"].to_numpy()
    up, down = (requests[name].to_numpy() for name in _bits(network))
    trained = in_time = arrived.to_numpy()
    if "failure_reasons" in requests:
        trained = in_time | (requests["failure_reasons"] == DROPPED["after"]).to_numpy()
    work = trained * rates.iteration[client] * requests["local_iterations"].to_numpy()
    requests["joules"] = rates.down[client] * down + work + in_time * rates.up[client] * up
    total = requests.groupby("round")["joules"].sum()
    return total.reindex(rounds["round"], fill_value=0.0).to_numpy()


def _requests_of(
    rounds: pd.DataFrame, clients: pd.DataFrame, network: NetworkSpec
) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """The clients' rows, whether each reply was used, and whether it came in its round."""
    requests = clients.sort_values(["round", "client"], kind="stable").reset_index(drop=True)
    if "local_iterations" not in requests:  # no controller gives clients unlike numbers
        steps = rounds.set_index("round")["local_iterations"]
        requests["local_iterations"] = steps.loc[requests["round"]].to_numpy()
    is_used = (requests["failures"] == 0) & (requests["samples"] > 0)
    arrived, bits = is_used, _bits(network)
    if "failed_up_bits" in requests:  # a late upload of an earlier round is not counted here
        refused = (requests["failures"] > 0) & (requests["failed_up_bits"] > 0)
        arrived = is_used | refused
        requests[bits[0]] = requests[bits[0]].where(~refused, requests["failed_up_bits"])
    return requests, is_used, arrived


def _waited_for(
    rounds: pd.DataFrame, clients: pd.DataFrame, network: NetworkSpec, federation: int, seed: int
) -> pd.DataFrame:
    """The rows of replies that came in their round, used or refused, with `SECONDS`."""
    requests, is_used, arrived = _requests_of(rounds, clients, network)
    bits = _bits(network)
    links = network.links(federation, seed, measured_iteration(rounds, requests[is_used]))
    client_seconds, central = coding_seconds(rounds, network)
    waited = requests[arrived].reset_index(drop=True)
    if _simple(links):
        parts = _at_once(links, waited, bits, client_seconds)
    else:
        parts = _in_turn(links, requests, arrived, bits, client_seconds, central)
    parts[:, -1] += central
    waited[list(SECONDS)] = parts
    return waited


def _bits(network: NetworkSpec) -> tuple[str, str]:
    """The columns with the bits that travel, up and down."""
    return MESSAGES if network.framing else WIRE


def _simple(links: Links) -> bool:
    """Whether a transfer depends neither on the time nor on the others."""
    limits = links.server_up, links.server_down
    return all(math.isinf(x) for x in limits) and all(
        isinstance(rates, ConstantRates) or all(rate.is_constant for rate in rates)
        for rates in (links.up, links.down)
    )


def _at_once(
    links: Links, arrived: pd.DataFrame, bits: tuple[str, str], coding: float
) -> np.ndarray:
    """All rounds' parts at once: what `_in_turn` computes, for links that do not interact."""
    import pandas as pd

    client = arrived["client"].to_numpy()
    up, down = (rates_at(rates, client, 0.0) for rates in (links.up, links.down))
    up_bits, down_bits = (arrived[name].to_numpy() for name in bits)
    download = down_bits / down + links.latency[client]
    compute = arrived["local_iterations"].to_numpy() * links.compute[client] + coding
    upload = up_bits / up + links.latency[client]
    seconds = pd.Series(download + compute + upload)
    waiting = seconds.groupby(arrived["round"].to_numpy()).transform("max") - seconds
    return np.stack([download, compute, upload, waiting.to_numpy()], 1)


def _in_turn(
    links: Links,
    requests: pd.DataFrame,
    arrived: pd.Series,
    bits: tuple[str, str],
    coding: float,
    central: float,
) -> np.ndarray:
    """Round after round, on the clock that runs go by; all wait for the server's coding.

    ``coding`` and ``central``: seconds of coding in a round, of a client and of the server.
    """
    clock: Clock[Exchange] = Clock(links)
    parts = [np.zeros((0, len(PARTS)))]
    up, down = bits
    requests = requests.assign(arrived=arrived, up_bits=requests[up], down_bits=requests[down])
    for number, rows in requests.groupby("round"):
        exchanges = [
            Exchange(
                row.client,
                number,
                row.down_bits,
                row.local_iterations * links.compute[row.client] + coding,
                row.up_bits,
                "arrived" if row.arrived else "received",
            )
            for row in rows.itertuples()
        ]
        start, coming = clock.now, [x for x in exchanges if x.until == "arrived"]
        clock.send(exchanges)
        clock.wait(coming, len(coming))
        parts += [exchange.parts(start, clock.now)[None] for exchange in coming]
        clock.to(clock.now + (central if coming else 0.0))
    return np.concatenate(parts)
