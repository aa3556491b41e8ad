"""Checks of the settings that say on what clients train, and how many at once."""

from fedsim.ground.errors import UsageError
from fedsim.settings.fields import Settings, flag


def check(config: Settings) -> None:
    """Refuses stacks and shares of GPUs that no machine could be asked for."""
    for name in ("gpus_per_client", "gpus_per_run"):
        share = getattr(config, name)
        if share is not None and share > 1 and share != int(share):
            raise UsageError(f"{flag(name)} is {share}: above 1 it is a whole number")
        if share is not None and config.device != "cuda":
            raise UsageError(
                f"{flag(name)} is {share} and --device is {config.device!r}: it goes with cuda, "
                "for Ray assigns the GPU"
            )
    share, many = config.gpus_per_client, config.stack
    if share is not None and config.engine != "flower":
        raise UsageError(f"--gpus-per-client is {share}: it goes with --engine flower")
    if many != "auto" and not (many.isascii() and many.isdecimal() and int(many) > 0):
        raise UsageError(f"--stack is {many!r}: it is a number above 0, or auto")
    if many not in ("auto", "1") and config.engine != "local":
        raise UsageError(
            f"--stack is {many}: it goes with --engine local, for Flower hands a worker one "
            "message at a time"
        )
