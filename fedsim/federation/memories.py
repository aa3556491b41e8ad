"""Methods with a memory: refused where it would grow without end, and named where one did."""

from compressors import ErrorFeedback
from compressors.base import Compressor
from compressors.bounds import bound
from compressors.grammar import short_text
from compressors.whole.growth import may_grow
from compressors.whole.keepers import parts_of
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import build_model
from fedsim.ground.errors import UsageError
from fedsim.settings.config import RunConfig


def check_growth(config: RunConfig) -> None:
    """Refuses a method whose memory would grow without end for the sizes of the task's tensors.

    The model is built only where the answer depends on them. Raises ``UsageError``, which names the
    flag and the method, and says what to use in its place.
    """
    plan = config.plan
    for flag, method in (("--method", plan.method.compressor), ("--downlink", plan.downlink)):
        residuals = [part for part in parts_of(method) if isinstance(part, ErrorFeedback)]
        if not any(may_grow(part.inner) for part in residuals):
            continue
        model = build_model(plan.task, config.seed, ClientData.of(config).data)
        try:
            named = model.named_parameters()
            method.init({name: p.detach() for name, p in named if p.requires_grad})
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from error


def suspect(method: Compressor) -> str | None:
    """A remark on a diverged run if the method's memory may be the reason; else None.

    A memory is bounded if theory has a rule for the method inside it: ``check_growth`` has then
    accepted it. A part of the user's own has no rule.

    Example:
        >>> from compressors import parse
        >>> suspect(parse("sbc(0.01)")) is None
        True
    """
    for part in parts_of(method):
        if isinstance(part, ErrorFeedback) and bound(part.inner, 64).kind == "unknown":
            return (
                f"the method's memory may have grown without end, for nothing is known of the "
                f"errors of {short_text(part.inner)} (try the method without ef)"
            )
    return None
