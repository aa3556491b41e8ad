"""The strategies by the names that users type: one value per strategy, with all facts about it.

A row says how the strategy is built, which settings it takes, and what it may be combined with.
Packages are imported when a strategy is built: the names are read without torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import compressors
import strategies
from fedsim.errors import UsageError
from fedsim.settings import asynchronous, codes, gradients
from fedsim.settings.combination import Combination, Parts
from fedsim.settings.differences import check_late

if TYPE_CHECKING:
    from compressors import Compressor
    from strategies import Aggregate, ChannelStrategy, Stepped


def _raw(method: str, uplink: "Compressor") -> "Compressor":
    return compressors.Raw()


@dataclass(frozen=True)
class Strategy:
    """One strategy.

    Args:
        build: from a run's parts to the strategy.
        takes: which of ``weighting``, ``server_lr``, ``staleness`` and ``buffer_size`` it takes;
            the others are refused.
        check: raises ``UsageError`` for a combination that the strategy refuses.
        downlink: the downlink by default, from the method's text and its compressor.
        coded: the strategy aggregates codes, and takes only methods that send them: never ``raw``.
        gradients: clients send the gradient of one batch, and the server has the optimizer.
        by_samples: the strategy weights clients by their samples, whatever ``weighting`` says.
        rate: the server's learning rate where none is given; None: the strategy has none.
        driven: how simulated time drives an asynchronous strategy: ``server`` or ``shards``;
            empty for the others, which go round by round.
        controls: clients and server have control variates beside the model.
        differences: the method whose differences the strategy adds up, and that it takes alone;
            empty for the others, which refuse them.
        momentum: the server has the momentum, and clients have none.
        twice: clients compute a gradient at the model of the round before, too.
        averages: the model moves by the mean of the round's updates, as clients can make it
            themselves (``collective``).
    """

    build: "Callable[[Parts], ChannelStrategy]"
    takes: tuple[str, ...] = ()
    check: Callable[[Combination], None] = lambda combination: None
    downlink: "Callable[[str, Compressor], Compressor]" = _raw
    coded: bool = False
    gradients: bool = False
    by_samples: bool = False
    rate: Callable[[], float | None] = lambda: None
    driven: Literal["", "server", "shards"] = ""
    controls: bool = False
    differences: str = ""
    twice: bool = False
    momentum: bool = False
    averages: bool = False


def _dsgd(parts: Parts, aggregate: "Aggregate | None" = None) -> "ChannelStrategy":
    return strategies.DelayedDSGD(
        parts.uplink, parts.downlink, weighting=parts.weighting, aggregate=aggregate, **parts.common
    )


def aggregated(
    place: str, arguments: Callable[[Parts], tuple[Any, ...]] = lambda parts: (), **facts: Any
) -> Strategy:
    """DSGD with another aggregate than the mean of a round's uplinks.

    Args:
        place: the class that makes a global update from uplinks: ``module:Class`` in
            ``strategies.server``.
        arguments: from a run's parts to what the class is made with.
        facts: the other fields of ``Strategy``.
    """

    def build(parts: Parts) -> "ChannelStrategy":
        module, name = place.split(":")
        make = vars(import_module(f"strategies.server.{module}"))[name]
        return _dsgd(parts, make(*arguments(parts)))

    return Strategy(build, **facts)


def _stepping(parts: Parts, kind: "type[Stepped] | None" = None) -> "ChannelStrategy":
    return (kind or strategies.Stepped)(
        parts.uplink, parts.downlink, optimizer=parts.optimizer, factor=parts.factor,
        weighting=parts.weighting, **parts.common,
    )  # fmt: skip


def _outer(parts: Parts) -> "ChannelStrategy":
    rate = {} if parts.server_lr is None else {"server_lr": parts.server_lr}
    return strategies.Nesterov(
        parts.uplink, parts.downlink, weighting=parts.weighting, **rate, **parts.common
    )


def _fetched(parts: Parts) -> "ChannelStrategy":
    rate = {} if parts.server_lr is None else {"server_lr": parts.server_lr}
    return strategies.Fetched(parts.uplink, parts.downlink, **rate, **parts.common)


def _flower(name: str, rate: str | None = None, **settings: float) -> Strategy:
    """A strategy of Flower's by its class; ``rate``: its argument for the learning rate."""

    def make() -> Callable[..., Any]:
        from flwr.serverapp import strategy

        return vars(strategy)[name]

    def build(parts: Parts) -> "ChannelStrategy":
        required = max(1, parts.common["required"])
        own = {"min_train_nodes": required, "min_available_nodes": required, **settings}
        if rate is not None and parts.server_lr is not None:
            own[rate] = parts.server_lr
        inner = make()(fraction_evaluate=0.0, **own)
        return strategies.Compressed(inner, parts.uplink, parts.downlink, **parts.common)

    def default() -> float | None:
        return None if rate is None else float(signature(make()).parameters[rate].default)

    takes = () if rate is None else ("server_lr",)
    return Strategy(build, takes, by_samples=True, rate=default)


STRATEGIES: dict[str, Strategy] = {
    "dsgd": Strategy(_dsgd, takes=("weighting",), averages=True),
    "majority": aggregated(
        "majority:Majority", lambda parts: (parts.common["seed"],), downlink=codes.votes, coded=True
    ),
    "innetwork": aggregated(
        "innetwork:InNetwork", lambda parts: (strategies.natural_code(parts.uplink), codes.WIDTH),
        check=codes.fits_switch, coded=True,
    ),
    "ef21": Strategy(
        lambda parts: strategies.RunningSum(parts.uplink, parts.downlink, **parts.common),
        check=lambda asked: check_late("ef21", asked.late),
        differences="ef21", coded=True,
    ),
    "diana": Strategy(
        lambda parts: strategies.Shifted(parts.uplink, parts.downlink, **parts.common),
        check=lambda asked: check_late("diana", asked.late),
        differences="diana", coded=True,
    ),
    "marina": Strategy(
        lambda parts: _stepping(parts, strategies.Estimated), takes=("weighting",),
        check=lambda asked: gradients.check_twice(asked), gradients=True, twice=True,
        differences="marina", coded=True,
    ),
    "fetchsgd": Strategy(
        _fetched, takes=("server_lr",), rate=lambda: 1.0, check=codes.adds_sketches, coded=True,
        momentum=True,
    ),
    "nesterov": Strategy(_outer, takes=("weighting", "server_lr"), rate=lambda: 0.7),
    "fedavg": _flower("FedAvg"),
    # Flower's FedAvgM has no momentum unless told (it is FedAvg then): 0.9 as in Hsu et al. 2019.
    "fedavgm": _flower("FedAvgM", "server_learning_rate", server_momentum=0.9),
    "fedadagrad": _flower("FedAdagrad", "eta"),
    "fedadam": _flower("FedAdam", "eta"),
    "fedyogi": _flower("FedYogi", "eta"),
    "scaffold": aggregated(
        "scaffold:Scaffold", lambda parts: (parts.common["clients"],), controls=True,
        check=lambda asked: check_late("scaffold", asked.late, "changes of control variates"),
    ),
    "gradients": Strategy(
        _stepping, takes=("weighting",), check=gradients.check, gradients=True
    ),
    "fedbuff": Strategy(
        asynchronous.fedbuff, takes=("server_lr", "staleness", "buffer_size"), rate=lambda: 1.0,
        check=asynchronous.check_server, driven="server",
    ),
    "fedasync": Strategy(
        asynchronous.fedasync, takes=("server_lr", "staleness"), rate=lambda: asynchronous.MIXING,
        check=asynchronous.check_mixing, driven="server",
    ),
    "sharded": Strategy(
        asynchronous.sharded, check=asynchronous.check_shards, gradients=True, driven="shards",
        downlink=asynchronous.own_downlink,
    ),
}
"""Every strategy, in the order in which help lists them."""

CODED = tuple(name for name, strategy in STRATEGIES.items() if strategy.coded)
"""The strategies that never take ``raw``."""

OWN_DOWNLINK = tuple(n for n, strategy in STRATEGIES.items() if strategy.downlink is not _raw)
"""The strategies whose downlink is not ``raw`` by default."""


def check_deployed(name: object) -> None:
    """Refuses a strategy that goes by simulated time, for a deployment's links are real."""
    strategy = STRATEGIES.get(str(name))
    if strategy is not None and strategy.driven:
        raise UsageError(
            f"--strategy is {name!r}: it goes by simulated time, and the links of a deployment are "
            "real; `fedsim run --network` trains with it"
        )


def of_reference(name: str) -> str:
    """The strategy of a method's dense reference: the same, or the mean where it takes no ``raw``.

    Example:
        >>> of_reference("majority"), of_reference("fedadam")
        ('dsgd', 'fedadam')
    """
    return "dsgd" if STRATEGIES[name].coded else name
