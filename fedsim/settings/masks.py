"""Momentum masking: which runs mask, how that is written down, and where it forgets much.

``auto`` follows the method, ``on`` and ``off`` go over it. ``ef`` masks with every method that has
``ef``: so ``auto`` was until 0.1.0, and folders of that version keep it.
"""

from collections.abc import Iterable
from dataclasses import replace
from math import isclose
from typing import Any, TypeVar

from compressors import text
from compressors.grammar import message_text
from compressors.whole import masking
from fedsim.settings.fields import Settings
from fedsim.settings.methods import recorded
from fedsim.settings.plans import Plan, optimizer_of
from fedsim.settings.versions import FORMER
from fedsim.tasks import TASKS

S = TypeVar("S", bound=Settings)

MUCH = 0.2
"""Above this share of the momentum's horizon, forgotten in an iteration, masking may cost accuracy
where the rate was chosen without it: a pilot lost 0.1 points there, 1 to 12 at more, and gained 2
below. With a rate chosen for each arm the loss is 0 to 3 points (experiments/masking)."""


def masking_recorded(config: Settings, plan: Plan) -> bool | str:
    """Whether a run masks; the method's text where the method masks some of what it sends."""
    some = masking.masking(plan.masking_method) == masking.SOME
    from_method = config.training.momentum_masking == "auto" and plan.masks
    return text(plan.masking_method) if from_method and some else plan.masks


def masking_in_identity(config: Settings, plan: Plan) -> bool | str:
    """What a run's identity says of masking: ``masking_recorded``, or what 0.1.0's ``auto`` said.

    That is asked where a method with ``ef`` leaves nothing to forget: no number has changed since,
    and the run has the name that it always had.
    """
    auto = config.training.momentum_masking == "auto" and not plan.algorithm.gradients
    return masking_recorded(config, plan) or auto and plan.method.residuals and _idle(config, plan)


def _idle(config: Settings, plan: Plan) -> bool:
    """Whether masking would change nothing in a run."""
    if masking.sends_all(plan.method.compressor) or config.training.stateless:
        return True
    return TASKS.get(plan.task.name) is plan.task and not momentum(config, plan)


def momentum(config: Settings, plan: Plan) -> float:
    """The largest factor by which a client's optimizer keeps its first moment; 0 without one."""
    groups = optimizer_of(config, plan).param_groups
    return max(float(g.get("momentum") or g.get("betas", (0.0,))[0]) for g in groups)


def resolve_masking(config: S, plan: Plan) -> S:
    """The settings as a run's folder keeps them: ``auto`` has become ``on`` or ``off``.

    It stays where neither says it: a method masks some tensors, or there is nothing to mask.
    """
    setting, named_as = config.training.momentum_masking, masking_in_identity(config, plan)
    if setting != "auto" or named_as is not plan.masks:
        return config
    training = replace(config.training, momentum_masking="on" if plan.masks else "off")
    return replace(config, training=training)


def as_before(config: S) -> S:
    """The settings with the masking of 0.1.0 where they leave it to the method."""
    if config.training.momentum_masking != "auto":
        return config
    return replace(config, training=replace(config.training, momentum_masking=FORMER))


def told_of(config: Settings, plan: Plan) -> dict[str, Any]:
    """``recorded`` of a run's method, and whether the method itself masks.

    With ``ef`` the text of a method need not say that it masks: SBC has its name without.
    """
    printed = message_text if config.training.momentum_masking == FORMER else text
    method = plan.method
    entry = recorded(config.method, printed(method.compressor), method.gradient, printed)
    return {**entry, "masks": masking.masking(plan.masking_method) != masking.NONE}


def momentum_share_forgotten(config: Settings, plan: Plan) -> float:
    """The share of the momentum's horizon that masking forgets per iteration: p / (n (1 - beta)).

    0 where nothing is masked, or p or n is not known.
    """
    p = plan.method.gradient
    if not plan.masks or p == 1 or config.controller is not None or config.training.stateless:
        return 0.0
    if plan.by_client:  # whose iterations follow from the data or the network
        return 0.0
    beta = momentum(config, plan)
    return p / (plan.temporal * (1 - beta)) if beta else 0.0


def much_forgotten(configs: Iterable[Settings], plans: Iterable[Plan]) -> str:
    """Words for runs whose masking forgets much; empty where there is none."""
    pairs = [*zip(configs, plans, strict=True)]
    shares = [(momentum_share_forgotten(*pair), pair[0].method) for pair in pairs]
    above = [pair for pair in shares if pair[0] > MUCH and not isclose(pair[0], MUCH)]
    if not above:
        return ""
    methods = ", ".join(dict.fromkeys(str(method).partition("(")[0] for _, method in above))
    where = f", as in {len(above)} of {len(shares)} runs," if len(shares) > 1 else ""
    return (
        f"the momentum masking of {methods} forgets u = p / (n (1 - beta)) = {max(above)[0]:.3g} "
        f"of the momentum per iteration; above {MUCH}{where} that can cost accuracy: "
        "--momentum-masking off leaves it out"
    )
