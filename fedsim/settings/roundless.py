"""What a run of an asynchronous strategy cannot be told: what is about rounds, and checkpoints."""

from fedsim.ground.errors import UsageError
from fedsim.settings.fields import Settings, flag
from fedsim.settings.resolved import Plan

_OF_ROUNDS = {
    "availability": None, "dropout": None, "ask": None, "deadline": None, "late": "hold",
    "catch_up": False,
}  # fmt: skip
"""Settings that are about the cohort of a round, and their defaults."""


def check(config: Settings, plan: Plan) -> None:
    """Refuses what belongs to rounds, checkpoints, and a buffer that a run never fills."""
    said = f"strategy {plan.strategy}"
    for name, default in _OF_ROUNDS.items():
        if getattr(config, name) != default:
            raise UsageError(
                f"{flag(name)} is {getattr(config, name)}: it is about the cohort of a round, and "
                f"{said} has no rounds"
            )
    if config.checkpoint_every is not None:
        raise UsageError(
            f"--checkpoint-every is {config.checkpoint_every}: a run of {said} always has messages "
            "under way, which no checkpoint holds"
        )
    updates = plan.rounds * plan.cohort
    if config.buffer_size is not None and config.buffer_size > updates:
        raise UsageError(
            f"--buffer-size is {config.buffer_size}: the run has {updates} updates, with which the "
            "model would never move"
        )
