"""The clock of a run that version 0.1.0 stopped: forecasts then, records now."""

import math
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from fedsim.federation.inflight import InFlight
from fedsim.federation.messages import reply_of
from fedsim.network.clock import Clock

_NEVER = math.inf


def restore(clock: Clock[InFlight], under_way: Mapping[str, Any]) -> None:
    """Goes on with what 0.1.0 kept: times that lay ahead were forecasts, and bits what was left.

    Args:
        clock: at the time of then.
        under_way: what stood under that name in the checkpoint.
    """
    for work in under_way["works"]:
        times = {name: _NEVER if x is None else x for name, x in work.items()}
        _go_on(clock, times)
    for late in under_way["late"]:
        exchange = clock.exchanges.get(late["client"])
        if exchange is None or exchange.number != late["round"]:  # it has come by now
            then = dict.fromkeys(("received_at", "trained_at", "ended_at"), late["arrived"])
            exchange = InFlight(late["client"], late["round"], **then)
            clock.exchanges[exchange.client] = exchange
        content = b64decode(late["content"])
        exchange.request, exchange.reply = reply_of({"node": late["node"], "content": content})


def _go_on(clock: Clock[InFlight], work: Mapping[str, Any]) -> None:
    """Enters what comes next for one client."""
    now, client, number = clock.now, work["client"], work["round"]
    exchange = InFlight(
        client, number, compute_seconds=work["seconds"], up_bits=work["up_bits"],
        until=work["until"], sent_at=work["asked"],
    )  # fmt: skip
    clock.exchanges[client] = exchange
    if work["down_end"] > now:
        clock.transfer("down", exchange, work["down_bits"], "downloaded")
        return
    if work["received"] > now:
        clock.agenda.at(work["received"], "received", client, number)
        return
    exchange.received_at = work["received"]
    if work["trained"] > now:
        clock.agenda.at(work["trained"], "trained", client, number)
        return
    exchange.trained_at = work["trained"]
    if work["up_end"] > now:
        clock.transfer("up", exchange, work["up_bits"], "uploaded")
    else:
        clock.agenda.at(work["arrived"], "arrived", client, number)
