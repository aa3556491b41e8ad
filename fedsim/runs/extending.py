"""A finished run becomes the beginning of a longer run, where no number changes by that.

The extended run ends bit-identical to a run of the same length from the start. That needs the
memory at the end of the first run (the folder ``final``), whole rounds, and the same rounds of
evaluation: BatchNorm's statistics may travel in these.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedsim.ground.errors import UsageError
from fedsim.ground.files import write_text
from fedsim.runs import checkpoint
from fedsim.settings import masks
from fedsim.settings.config import RunConfig

_MAY_DIFFER = {"iterations", "rounds", "evaluate_every"}


def is_longer(before: RunConfig, now: RunConfig, different: dict[str, Any]) -> bool:
    """Whether ``now`` asks for more iterations of ``before``, and for nothing else."""
    return set(different) <= _MAY_DIFFER and before.plan.iterations < now.plan.iterations


def check_extension(before: RunConfig, now: RunConfig, out: Path) -> None:
    """Refuses a longer run that would have other numbers, or whose folder lacks what it needs.

    Raises ``UsageError``, and changes nothing.
    """
    if reason := _reason(before, now, out):
        raise UsageError(
            f"{_length(now)}: --out {out} holds a run of "
            f"{_length(before).partition(' is ')[2]} that cannot be extended: {reason}"
        )


def _length(run: RunConfig) -> str:
    """How long a run is, with the setting that says it."""
    if run.plan.by_client:
        return f"--rounds is {run.plan.rounds}"
    return f"--iterations is {run.plan.iterations}"


def extend(before: RunConfig, out: Path, text: str) -> None:
    """Lets the finished run in ``out`` go on from its end as a longer one (``check_extension``).

    ``text``: the settings of that (``written_config``).
    """
    checkpoint.go_on_from_end(out, before.plan.rounds)
    write_text(out / "config.toml", text)
    (out / "summary.json").unlink()  # last: a kill before this finds a summary of fewer iterations


def written_config(
    config: RunConfig, content: Mapping[str, Any], start: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """What ``config.toml`` holds: how this version has every rule, and what files hold.

    ``content``: digests of the user's files; ``start``: of what the run begins with.
    """
    return masks.resolve_masking(config, config.plan).to_toml(content=content, start=start)


def _reason(before: RunConfig, now: RunConfig, out: Path) -> str:
    """Why the run in ``out`` cannot be extended, and what helps; empty where it can be."""
    then, longer = before.plan, now.plan
    left, interval = then.iterations % then.temporal, then.evaluate_every
    if left:
        return f"its last round has {left} local iterations, and a longer run's has {then.temporal}"
    if longer.evaluate_every != interval:
        return (
            f"rounds between evaluations are {interval} there and {longer.evaluate_every} here; "
            f"give --evaluate-every {interval}"
        )
    if then.rounds % interval:
        return (
            f"its last round, {then.rounds}, is not a multiple of {interval}, and a longer run "
            "would not be evaluated there"
        )
    if before.stop_at_bits is not None:
        return f"it ends where a client has sent --stop-at-bits {before.stop_at_bits}"
    if before.stop_at_joules is not None:
        spent = float(before.stop_at_joules)
        return f"it ends where clients have spent --stop-at-joules {spent:g}"
    if then.network is not None and then.network.limited:
        return f"it may end with empty batteries, as its --network is {str(before.network)!r}"
    if before.controller is not None:
        return f"its --controller {before.controller} was told of {then.iterations} iterations"
    if now.machine.engine == "flower":
        return "--engine is 'flower'; a longer run goes on with --engine local or ray"
    if not checkpoint.has_end(out, then.rounds):
        limit = checkpoint.KEPT_BYTES / 2**20
        return (
            f"its memory was not kept, which is done for up to {limit:g} MiB outside of sweeps, or "
            "with --keep-checkpoint; choose another folder"
        )
    if damage := checkpoint.end_damage(out, then.rounds):
        return f"its memory is damaged ({damage}); choose another folder"
    return ""
