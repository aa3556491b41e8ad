"""Checks of the settings that say on what clients train, and how many at once."""

from fedsim.ground.errors import UsageError
from fedsim.settings.fields import Settings, flag


def check(config: Settings) -> None:
    """Refuses stacks, captured steps and shares of GPUs that no machine could be asked for."""
    for name in ("gpus_per_client", "gpus_per_run"):
        share = getattr(config, name)
        if share is not None and share > 1 and share != int(share):
            raise UsageError(f"{flag(name)} is {share}: above 1 it is a whole number")
        if share is not None and config.device != "cuda":
            raise UsageError(
                f"{flag(name)} is {share} and --device is {config.device!r}: it goes with cuda, "
                "for Ray assigns the GPU"
            )
    share, many, asked = config.gpus_per_client, config.stack, config.compile_step
    if share is not None and config.engine != "flower":
        raise UsageError(f"--gpus-per-client is {share}: it goes with --engine flower")
    if many != "auto" and not (many.isascii() and many.isdecimal() and int(many) > 0):
        raise UsageError(f"--stack is {many!r}: it is a number above 0, or auto")
    if many not in ("auto", "1") and config.engine != "local":
        raise UsageError(
            f"--stack is {many}: it goes with --engine local, for Flower hands a worker one "
            "message at a time"
        )
    if asked == "graphs" and config.device.partition(":")[0] != "cuda":
        raise UsageError(
            f"--compile-step is graphs and --device is {config.device!r}: graphs are CUDA's; "
            "compile goes with every device"
        )
    if asked != "none" and many != "1":
        raise UsageError(
            f"--compile-step is {asked} and --stack is {many}: it goes with --stack 1, for what is "
            "captured is the step of one client"
        )
    if asked != "none" and config.engine == "local" and config.workers > 1:
        raise UsageError(
            f"--compile-step is {asked} and --workers is {config.workers}: it goes with one worker "
            "of --engine local, for a step is captured while nothing else runs in the process"
        )
