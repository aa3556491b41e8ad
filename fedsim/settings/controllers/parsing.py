"""From the text of a controller to the controller, and back."""

from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from compressors.grammar import Call, value
from fedsim.ground.errors import UsageError, parse_call, unknown
from fedsim.settings.controllers.base import CONTROLLER_NEEDS, Controller
from fedsim.settings.controllers.registry import CONTROLLERS

_FLAG = "--controller"


def parse_controller(written: str) -> Controller:
    """The controller that a text names: a name, and its settings in parentheses.

    Raises ``UsageError`` for an unknown name or setting, or a value that is not allowed.

    Example:
        >>> parse_controller("warmup(20, first=0.25)")
        Warmup(rounds=20, first=0.25)
    """
    call = parse_call(written, _FLAG, "a name and settings, as in 'warmup(20, first=0.25)'")
    name, named = call.name, call.named
    if name not in CONTROLLERS:
        raise UsageError(f"{_FLAG}: {unknown('controller', name, CONTROLLERS)}")
    make = CONTROLLERS[name].cls
    settings = [f.name for f in fields(make)] if is_dataclass(make) else []
    for key in named:
        if key not in settings:
            allowed = ", ".join(settings) or "nothing"
            raise UsageError(f"{_FLAG} is {written!r}: {name} has no {key!r}; it takes {allowed}")
    try:
        keywords = {key: _value(value) for key, value in named.items()}
        controller: Controller = make(*map(_value, call.arguments), **keywords)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{_FLAG} is {written!r}: {error}") from error
    # What the contract asks of a class of the user's own.
    needs, moves = getattr(controller, "needs", None), getattr(controller, "moves", None)
    if not isinstance(needs, tuple) or not {*needs} <= {*CONTROLLER_NEEDS}:
        raise UsageError(
            f"controller {name}: needs is {needs!r}; give a tuple of some of "
            f"{', '.join(CONTROLLER_NEEDS)}"
        )
    if not isinstance(moves, tuple) or not {*moves} <= {"n", "p"}:
        raise UsageError(f"controller {name}: moves is {moves!r}; give a tuple of 'n' and 'p'")
    if not callable(getattr(controller, "choose", None)):
        raise UsageError(f"controller {name}: it has no choose(observation, memory)")
    return controller


def controller_text(controller: Any) -> str:
    """The text of a controller: ``parse_controller`` of it gives an equal one.

    Raises ``UsageError`` where its class is in no row of ``CONTROLLERS``.

    Example:
        >>> controller_text(parse_controller("warmup(20)"))
        'warmup(20)'
    """
    name = next((n for n, row in CONTROLLERS.items() if row.cls is type(controller)), None)
    if name is None or not is_dataclass(controller):
        raise UsageError(
            f"{_FLAG} is {controller!r}: give a frozen dataclass whose class is in CONTROLLERS "
            "(fedsim.settings.controllers)"
        )
    arguments = [
        f"{f.name}={getattr(controller, f.name)!r}"
        if f.default is not MISSING
        else repr(getattr(controller, f.name))
        for f in fields(controller)
        if getattr(controller, f.name) != f.default
    ]
    return f"{name}({', '.join(arguments)})" if arguments else name


def _value(call: Call) -> Any:
    """An argument as Python has it; a tuple where it stands in parentheses alone."""
    if call.called and not (call.name or call.named):
        return tuple(map(_value, call.arguments))
    return value(str(call))
