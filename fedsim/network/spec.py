"""A network as it is written: links of clients and server, and compute times."""

import contextlib
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from compressors.grammar import split_text
from fedsim.ground.errors import UsageError, comma, reason, unknown
from fedsim.network.edges import EdgeTree, parse_tree
from fedsim.network.energy import ENERGY_KEYS, NO_BATTERY, EnergyRates
from fedsim.network.presets import DEVICE_PROFILES, PRESETS
from fedsim.network.quantities import QuantityKind, Varying, parse_varying, quantity
from fedsim.network.rates import ConstantRates, Rate, Trace, read_trace

NETWORK_KEYS = (
    "up", "down", "latency", "compute", "flops", "server_up", "server_down", "trace", "framing",
    "topology", "coding", "overlap", "device", *ENERGY_KEYS,
)  # fmt: skip
TOPOLOGIES = ("star", "allreduce", "tree(groups=10)")
ALLREDUCE = (
    "a ring allreduce adds up the floats of all clients in every round, without a server; it takes "
    "--method raw, --downlink raw, --strategy dsgd and every client"
)
RATES = ("up", "down", "server_up", "server_down")
_DRAWN = ("up", "down", "latency", "compute", *ENERGY_KEYS)  # in this order: seeds follow from it
_NO_LIMIT, _NO_DELAY = Varying("constant", math.inf), Varying("constant", 0.0)


@dataclass(frozen=True)
class Links:
    """What every client has, index by client: rates over time, and seconds."""

    up: Sequence[Rate]  # the upload rate of each client's link
    down: Sequence[Rate]  # the download rate of each client's link
    latency: np.ndarray  # the delay of one message, in seconds, shape (clients,)
    compute: np.ndarray  # seconds per local iteration, shape (clients,)
    server_up: float  # what all uploads share at the server, in bits per second
    server_down: float  # what all downloads share at the server, in bits per second


@dataclass(frozen=True)
class NetworkSpec:
    """The links of a federation."""

    up: Varying = _NO_LIMIT  # the upload rate of a client's link, in bits per second
    down: Varying = _NO_LIMIT  # the download rate of a client's link, in bits per second
    latency: Varying = _NO_DELAY  # the delay of one message in one direction, in seconds
    # Seconds per local iteration; with `measured`, how many times as long as it took in the run;
    # with `by_flops`, floating-point operations per second.
    compute: Varying = Varying("constant", 1.0)
    measured: bool = True  # whether `compute` multiplies what was measured
    by_flops: bool = False  # whether `compute` is a rate, by which `flops` are divided
    flops: float | None = None  # floating-point operations of one local iteration; None: counted
    # The capacity that all uploads share at the server, bits per second.
    server_up: float = math.inf
    server_down: float = math.inf  # that of all downloads
    trace: Trace | None = field(default=None, repr=False)  # over time, for `up` and `down`
    framing: bool = False  # whether whole messages take their time, or the payloads alone
    topology: str = "star"  # all messages are with the server; or `allreduce`, a ring; or `tree`
    tree: EdgeTree | None = None  # the edge servers of topology `tree`
    coding: float = 0.0  # how many times as long as in the run coding takes; 0: no time
    overlap: bool = False  # whether clients go on with local steps while messages travel
    energy_up: Varying = _NO_DELAY  # joules per bit that a client sends
    energy_down: Varying = _NO_DELAY  # joules per bit that a client receives
    energy_compute: Varying = _NO_DELAY  # watts; with `energy_by_flops` joules per operation
    energy_by_flops: bool = False
    battery: Varying = NO_BATTERY  # joules after which a client takes part no more
    name: str = ""  # what was typed

    @property
    def depends(self) -> bool:
        """Whether the clock depends on the machine that a run is carried out on."""
        return self.measured or self.coding > 0

    @property
    def computes(self) -> bool:
        """Whether every local iteration takes a time above 0 that no machine has measured."""
        return not self.measured and self.compute.first > 0

    @property
    def spends(self) -> bool:
        """Whether messages or local iterations take energy."""
        return any(x != _NO_DELAY for x in (self.energy_up, self.energy_down, self.energy_compute))

    @property
    def limited(self) -> bool:
        """Whether clients have batteries that may become empty."""
        return self.battery != NO_BATTERY

    @property
    def lacks_flops(self) -> bool:
        """Whether the floating-point operations of an iteration are needed and not known."""
        return self.flops is None and (self.by_flops or self.energy_by_flops)

    def links(self, clients: int, seed: int, measured: float) -> Links:
        """Every client's link; the same seed gives the same links.

        ``measured``: seconds per local iteration in the run, for `compute=measured`. Where
        `lacks_flops` is true, `compute` is not a number.
        """

        def draw(name: str) -> np.ndarray:
            return self._draw(name, clients, seed)

        up: Sequence[Rate]
        down: Sequence[Rate]
        if self.trace is None:
            up, down = (ConstantRates(draw(name)) for name in ("up", "down"))
        else:
            up, down = self.trace.of(clients)
        if self.by_flops:
            compute = (math.nan if self.flops is None else self.flops) / draw("compute")
        else:
            compute = draw("compute") * (measured if self.measured else 1.0)
        links = Links(up, down, draw("latency"), compute, self.server_up, self.server_down)
        return ring(links) if self.topology == "allreduce" else links

    def energy(self, clients: int, seed: int) -> EnergyRates:
        """What every client spends, and its battery; the same seed gives the same.

        Example:
            >>> network = parse("compute=4GFLOP/s, flops=2GFLOP, energy_compute=6W, battery=1kJ")
            >>> rates = network.energy(1, seed=0)
            >>> float(rates.iteration[0]), float(rates.battery[0])  # half a second of 6 W
            (3.0, 1000.0)
        """
        up, down, compute, battery = (self._draw(name, clients, seed) for name in ENERGY_KEYS)
        if self.energy_by_flops:
            compute = compute * (math.nan if self.flops is None else self.flops)
        elif self.energy_compute != _NO_DELAY:
            compute = compute * self.links(clients, seed, math.nan).compute
        return EnergyRates(up, down, compute, battery)

    def _draw(self, name: str, clients: int, seed: int) -> np.ndarray:
        """A quantity of every client."""
        quantity: Varying = getattr(self, name)
        return quantity.draw(np.random.default_rng([seed, 1 + _DRAWN.index(name)]), clients)


def ring(links: Links) -> Links:
    """Links on which a model up takes the first half of a ring allreduce, and one down the second.

    Each of K clients sends 1/K of a model to the next and has 1/K from the one before, in K - 1
    steps until every K-th is summed up somewhere, and in K - 1 more until all have the sum. A step
    ends with the slowest link, and takes the latency of both ends of a message: a model takes
    (K - 1)/K of its time on the slowest link, and K - 1 times the greatest two latencies in a row.

    Args:
        links: of all clients, with constant rates.

    Source: Patarasuk & Yuan 2009 (Bandwidth optimal all-reduce algorithms for clusters of
    workstations), section 3.

    Example:
        >>> links = ring(parse("up=3bit, down=9bit, latency=1s, compute=0s").links(4, 0, 0.0))
        >>> float(links.up[0].values[0]), float(links.latency[0])  # 3 steps of 3 of 12 bits
        (4.0, 6.0)
    """
    count = len(links.up)
    steps = count - 1
    rate = min(rate.values[0] for rate in (*links.up, *links.down))
    step = float((links.latency + np.roll(links.latency, -1)).max())
    each = ConstantRates(np.full(count, rate * count / steps if steps else math.inf))
    return replace(links, up=each, down=each, latency=np.full(count, steps * step))


def parse(text: str, name: str = "--network") -> NetworkSpec:
    """A network from its text.

    Args:
        text: a preset (`4g`), settings (`up=lognormal(5Mbit, 1), down=20Mbit, latency=50ms,
            compute=2*measured, server_up=1Gbit, trace=FILE.csv, framing=on, topology=allreduce,
            coding=measured, device=phones, energy_up=1uJ/bit, battery=50J`), a preset with settings
            that replace its own (`4g, compute=10ms, topology=tree(groups=10)`), or a TOML file with
            such settings.
        name: the setting, as a message calls it.

    Raises:
        UsageError: a preset, device, setting or value that is none, or a file that cannot be read.

    Example:
        >>> parse("up=1Mbit, down=2Mbit").up.first
        1000000.0
    """
    file, folder = text.strip(), Path()
    if file.endswith(".toml") and len(split_text(text)) == 1:
        settings, folder = _from_file(Path(file), name), Path(file).parent
    else:
        settings = _settings_in(text, name)
    settings = _with_device(settings, name)
    if "trace" in settings and {"up", "down"} & set(settings):
        raise UsageError(f"{name}: trace stands in the place of up and down; give one of the two")
    values: dict[str, Any] = {}
    for key, value in settings.items():
        what, measured = f"{name}: {key}", value.endswith("measured")
        by_flops = "flop" in value.lower()
        # `measured` and `K*measured` are in units of what the run took.
        factor = value.removesuffix("measured").strip().removesuffix("*").strip() or "1"
        if key == "topology" and value.startswith("tree"):
            values |= {key: "tree", "tree": parse_tree(value, what)}
        elif key == "topology":
            if value not in TOPOLOGIES:
                raise UsageError(f"{name}: {unknown('topology', value, TOPOLOGIES)}")
            values[key] = value
        elif key in ("framing", "overlap"):
            if value not in ("on", "off"):
                raise UsageError(f"{what} is {value!r}: give on or off")
            values[key] = value == "on"
        elif key == "coding":
            values[key] = math.nan
            with contextlib.suppress(ValueError):
                values[key] = float(factor) if measured else math.nan
            if not 0 <= values[key] < math.inf:
                raise UsageError(
                    f"{what} is {value!r}: give measured, or 0.1*measured for coders "
                    "ten times as fast as the run's"
                )
        elif key == "compute":
            values |= {"measured": measured, "by_flops": by_flops}
            kind: QuantityKind = "factor" if measured else "flop rate" if by_flops else "delay"
            values[key] = parse_varying(factor if measured else value, what, kind)
        elif key == "flops":
            values[key] = quantity(value, what, "flops")
        elif key in ENERGY_KEYS:
            values["energy_by_flops"] = by_flops or values.get("energy_by_flops", False)
            values[key] = parse_varying(value, what, _energy_kind(key, value))
        elif key == "trace":
            values[key] = read_trace(folder / _unquoted(value))
        elif key in ("server_up", "server_down"):
            values[key] = quantity(value, what, "rate")
        else:
            values[key] = parse_varying(value, what, "delay" if key == "latency" else "rate")
    network = NetworkSpec(**values, name=file)
    _check_topology(network, settings, name)
    _check_energy(network, settings, name)
    return network


def _check_topology(network: NetworkSpec, settings: Mapping[str, str], name: str) -> None:
    """Refuses settings that the clock of a ring or of edge servers does not have."""
    without: tuple[str, ...] = ()
    if network.topology == "allreduce":
        without = ("trace", "server_up", "server_down", "coding", "framing", *ENERGY_KEYS)
        cause = (
            "is allreduce: a ring has no server, constant rates and floats that nobody codes; give "
            "up, down, latency and compute"
        )
    elif network.tree is not None:
        without = ("server_up", "server_down", "coding", "framing")
        cause = (
            "is tree: the server exchanges payloads with edge servers alone, and nobody measures "
            "their coding; give the tree up, down and latency"
        )
    for key in without:
        if key in settings:
            raise UsageError(f"{name}: {key} is {settings[key]} and topology {cause}")


def _energy_kind(key: str, value: str) -> QuantityKind:
    """The kind of the numbers of a setting of energy."""
    if key == "energy_compute":
        return "joules per flop" if "flop" in value.lower() else "watts"
    return "joules" if key == "battery" else "joules per bit"


def _check_energy(network: NetworkSpec, settings: Mapping[str, str], name: str) -> None:
    """Refuses settings of FLOPs and energy that lack what they go by."""
    if "flops" in settings and not (network.by_flops or network.energy_by_flops):
        raise UsageError(
            f"{name}: flops is {settings['flops']}, and nothing goes by it; give compute a rate "
            "such as 2GFLOP/s, or energy_compute such as 50pJ/FLOP"
        )
    if "battery" in settings and not network.spends:
        raise UsageError(
            f"{name}: battery is {settings['battery']}, and nothing empties it; give energy_up, "
            "energy_down or energy_compute"
        )
    if "energy_compute" in settings and not network.energy_by_flops and network.measured:
        raise UsageError(
            f"{name}: energy_compute is {settings['energy_compute']} and compute is measured: "
            "watts need a time that is the same on every machine; give compute a time such as "
            "20ms or a rate such as 2GFLOP/s, or energy_compute such as 50pJ/FLOP"
        )


def written_value(key: str, value: object) -> str:
    """A setting's value as a network's text has it.

    A rate that is a number has its unit. A path with a comma or a parenthesis is quoted.

    Example:
        >>> written_value("up", 5e6), written_value("up", "5Mbit"), written_value("latency", 0.05)
        ('5000000bit', '5Mbit', '0.05')
        >>> written_value("trace", "links.csv"), written_value("trace", "at home, wifi.csv")
        ('links.csv', "'at home, wifi.csv'")
    """
    if key == "trace":
        path = f"{value}"
        mark = '"' if "'" in path else "'"
        return path if split_text(f"{path},") == [path, ""] else f"{mark}{path}{mark}"
    number = isinstance(value, Real) and not isinstance(value, bool) and value != math.inf
    unit = "bit" if key in RATES and number else ""
    return f"{value}".removesuffix(".0" if unit else "") + unit


def _unquoted(path: str) -> str:
    """A path without the quotes that ``written_value`` puts around it."""
    quoted = re.fullmatch(r"'[^']*'|\"[^\"]*\"", path)
    return path[1:-1] if quoted else path


def without_file(text: str, name: str = "--network") -> str:
    """A network's text; that of a TOML file as the settings in it, so that the file may change.

    Raises:
        UsageError: the file cannot be read, or says what no network has.
    """
    if not text.strip().endswith(".toml"):
        return text.strip()
    file = Path(text.strip())
    settings = _from_file(file, name)
    if "trace" in settings:
        settings["trace"] = written_value("trace", file.parent / _unquoted(settings["trace"]))
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def without_overlap(text: str) -> str:
    """A network's text without its ``overlap``.

    Example:
        >>> without_overlap("4g, compute=10ms, overlap=on")
        '4g, compute=10ms'
    """
    items = [item.strip() for item in split_text(text)]
    return ", ".join(item for item in items if item.partition("=")[0].strip() != "overlap")


def _settings_in(text: str, name: str) -> dict[str, str]:
    """The settings of a text; they override those of the preset that is its first item."""
    first, *items = split_text(text)
    if "=" in first:
        return _once([item.partition("=")[::2] for item in (first, *items)], name, text)
    if first not in PRESETS:
        raise UsageError(
            f"{name}: {unknown('network', first, PRESETS)}, settings such as "
            "up=5Mbit, or a TOML file of them"
        )
    more = _once([item.partition("=")[::2] for item in items], name, text)
    return _settings_in(PRESETS[first].text, name) | more


def _with_device(settings: dict[str, str], name: str) -> dict[str, str]:
    """The settings, before them those of the device that they name, which they replace."""
    if "device" not in settings:
        return settings
    device = settings["device"]
    if device not in DEVICE_PROFILES:
        raise UsageError(f"{name}: {unknown('device', device, DEVICE_PROFILES)}")
    typed = {key: value for key, value in settings.items() if key != "device"}
    return _settings_in(DEVICE_PROFILES[device].text, name) | typed


def _once(
    pairs: Iterable[tuple[str, str]], where: str, text: str, keys: Sequence[str] = NETWORK_KEYS
) -> dict[str, str]:
    """The values by setting; refuses one that is not known, has no value, or was given before."""
    settings: dict[str, str] = {}
    for typed, value in pairs:
        key = typed.strip().replace("-", "_")
        if key not in keys:
            meant = comma(text.replace(", ", ","))  # as it was typed
            raise UsageError(f"{where}: {unknown('setting', key, keys)}{meant}")
        if key in settings or not value.strip():
            how = "is given twice" if key in settings else "has no value; write it as in up=5Mbit"
            raise UsageError(f"{where}: {key} {how}")
        settings[key] = value.strip()
    return settings


def _from_file(file: Path, name: str) -> dict[str, str]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{name} is {file}: there is no such file") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{name}: {file} cannot be read as TOML: {reason(error)}") from error
    pairs = ((key, str(value)) for key, value in values.items())
    settings = _once(pairs, str(file), "", ("preset", *NETWORK_KEYS))
    return (_settings_in(settings.pop("preset"), name) if "preset" in settings else {}) | settings
