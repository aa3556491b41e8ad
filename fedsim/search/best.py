"""The winner as a TOML file that ``fedsim run --config`` takes."""

from dataclasses import fields
from typing import Any

import tomli_w

from fedsim.ground import units
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.settings.config import RunConfig, default_of

_ALWAYS = ("task", "method", "temporal", "seed")
_MACHINE = ("data", "device", "download", "workers", "timeout", "label", "tensorboard",
            "checkpoint_every", "keep_payloads", "keep_checkpoint", "gpus_per_client",
            "gpus_per_run", "engine")  # fmt: skip


def to_toml(final: Finalist, goal: Goal) -> str:
    """The run of a finalist's first fresh seed on all training samples, and what it came to."""
    config = final.config
    point = final.held.points[0]
    said = goal.told()
    lines = [f"{said[0].upper()}{said[1:]}, as a search found it."]
    if point is not None:
        score, bits = units.score(point[1], goal.name), units.bits(point[0])
        lines.append(
            f"This run: {goal.name} {score} on held-out samples with {bits} per client upstream."
        )
    for name, own in (("task", config.task), ("strategy", config.strategy)):
        if not isinstance(own, str) and not own.place:
            lines.append(f"The {name} is made in Python: run it from there, with these settings.")
    return "".join(f"# {line}\n" for line in lines) + "\n" + tomli_w.dumps(_settings(config))


def _settings(config: RunConfig) -> dict[str, Any]:
    """The settings that are not at their defaults, but for those of a machine."""
    found = {}
    for f in fields(RunConfig):
        value = getattr(config, f.name)
        if f.name in _MACHINE or value is None:
            continue
        if f.name in _ALWAYS or value != default_of(f.name):
            found[f.name] = getattr(value, "written", value)
    return found
