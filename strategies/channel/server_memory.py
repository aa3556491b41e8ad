"""What a server's end of the channel remembers between rounds: tensors, and values for JSON."""

from base64 import b64decode, b64encode
from typing import Any

from compressors import State
from compressors.whole.memory import inside, nest
from strategies.channel.traffic import Downlink


def kept(end: Any) -> tuple[State, dict[str, Any]]:
    """The memory of ``end``, a ``ServerEnd``, after a finished round."""
    last = end.last_update
    values: dict[str, Any] = {
        "version": end.version,
        "base": {str(client): version for client, version in end.base.items()},
        "told": {str(client): sent for client, sent in end.told.items()},
        "iterations": {str(client): number for client, number in end.iterations.items()},
        "applied": {str(client): number for client, number in end.applied.items()},
        "lost": {str(client): number for client, number in end.lost.items()},
        "channel": end.channel,
        "update": b64encode(last.payload).decode() if last else None,
        "spans": last.spans if last else None,
    }
    if end.missed is not None:
        values["missed"] = end.missed.state()
    tensors = nest("weights", end.weights) | nest("downlink", end.memory)
    if end.buffers is not None:
        tensors |= nest("buffers", end.buffers.values)
    return tensors, values


def put_back(end: Any, tensors: State, values: dict[str, Any]) -> None:
    """Gives ``end``, a ``ServerEnd``, what ``kept`` returned."""
    end.weights, end.memory = inside("weights", tensors), inside("downlink", tensors)
    if end.buffers is not None:
        end.buffers.values = inside("buffers", tensors)
    end.version = values["version"]
    end.base = {int(client): version for client, version in values["base"].items()}
    told = values.get("told", {}).items()  # folders of before have none
    end.told = {int(client): (number, version) for client, (number, version) in told}
    for name in ("applied", "lost", "iterations"):  # folders of before have none
        kept = values.get(name, {})
        setattr(end, name, {int(client): number for client, number in kept.items()})
    end.channel = values.get("channel", end.channel)
    if values["update"] is not None:
        end.last_update = Downlink(b64decode(values["update"]), "update", values["spans"])
    if end.missed is not None:
        end.missed.restore(values.get("missed", []))
