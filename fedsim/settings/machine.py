"""Checks of the settings that say on what clients train, and how many at once."""

from fedsim.errors import UsageError
from fedsim.settings.fields import Settings, flag


def check(config: Settings) -> None:
    """Refuses stacks, captured steps and shares of GPUs that no machine could be asked for."""
    for name in ("gpus_per_client", "gpus_per_run"):
        _gpus(config, name, getattr(config, name))
    _stack(config)
    _compiled(config)


def _compiled(config: Settings) -> None:
    """Refuses what a step cannot be captured with."""
    asked = config.compile_step
    if asked == "none":
        return
    if asked == "graphs" and config.device.partition(":")[0] != "cuda":
        raise UsageError(
            f"--compile-step is graphs and --device is {config.device!r}: graphs are CUDA's; "
            "compile goes with every device"
        )
    if config.stack != "1":
        raise UsageError(
            f"--compile-step is {asked} and --stack is {config.stack}: it goes with --stack 1, for "
            "what is captured is the step of one client"
        )
    if config.engine == "local" and config.workers > 1:
        raise UsageError(
            f"--compile-step is {asked} and --workers is {config.workers}: it goes with one worker "
            "of --engine local, for a step is captured while nothing else runs in the process"
        )


def _stack(config: Settings) -> None:
    """Refuses what is neither auto nor a number, and stacks where clients come one at a time."""
    many = config.stack
    if many != "auto" and not (many.isascii() and many.isdecimal() and int(many) > 0):
        raise UsageError(f"--stack is {many!r}: it is a number above 0, or auto")
    if many not in ("auto", "1") and config.engine != "local":
        raise UsageError(
            f"--stack is {many}: it goes with --engine local, for Flower hands a worker one "
            "message at a time"
        )


def _gpus(config: Settings, name: str, share: float | None) -> None:
    """Refuses a share of GPUs that Ray does not take, and one where no GPU is used."""
    if share is None:
        return
    if share > 1 and share != int(share):
        raise UsageError(f"{flag(name)} is {share}: above 1 it is a whole number")
    if config.device != "cuda":
        raise UsageError(
            f"{flag(name)} is {share} and --device is {config.device!r}: it goes with cuda, "
            "for Ray assigns the GPU"
        )
    if name == "gpus_per_client" and config.engine != "flower":
        raise UsageError(f"{flag(name)} is {share}: it goes with --engine flower")
