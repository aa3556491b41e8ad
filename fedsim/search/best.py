"""The winner as a TOML file that ``fedsim run --config`` takes."""

import tomli_w

from fedsim.ground import units
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.settings.config import SETTINGS, tables
from fedsim.settings.versions import stamped

_ALWAYS = ("task", "method", "temporal", "seed")


def to_toml(final: Finalist, goal: Goal) -> str:
    """The run of a finalist's first fresh seed on all training samples, and what it came to.

    Settings of a machine are not written.
    """
    config = final.config
    point = final.held.points[0]
    goal_text = goal.words()
    lines = [f"{goal_text[0].upper()}{goal_text[1:]}, as a search found it."]
    if point is not None:
        score, bits = units.score(point[1], goal.name), units.bits(point[0])
        lines.append(
            f"This run: {goal.name} {score} on held-out samples with {bits} per client {goal.ways}."
        )
    for name, part in (("task", config.task), ("strategy", config.strategy)):
        if not isinstance(part, str) and not part.place:
            lines.append(f"The {name} is made in Python: run it from there, with these settings.")
    settings = {
        name: value
        for name, value in config.flat().items()
        if name in _ALWAYS
        or (SETTINGS[name].result and name != "device" and value != SETTINGS[name].default)
    }
    written = tomli_w.dumps(stamped(tables(settings)))
    return "".join(f"# {line}\n" for line in lines) + "\n" + written
