"""Checks of the arguments of an app's author; each error shows what to write.

For a client's error that follows from a known mistake of the app, there is an explanation.
"""

from reprlib import repr
from typing import Any

from flwr.app import ArrayRecord, Error, Message
from flwr.common.constant import ErrorCode

MOD = "mods=[client_mod(uplink, downlink, template=...)]"
"""How the client's half of ``Compressed`` is written."""

_NO_ARRAYS = ("'arrays'", "not enough values to unpack (expected 1, got 0)", "StopIteration")
"""Errors of an app that expects the model as arrays, and receives a payload."""


def check_method(setting: str, method: Any) -> None:
    """Raises ``ValueError`` where a ``setting`` that takes a method is given something else.

    Example:
        >>> check_method("uplink", "sbc(0.05)")
        Traceback (most recent call last):
        ValueError: uplink is the text 'sbc(0.05)': give parse('sbc(0.05)'), of compressors
    """
    if isinstance(method, str):
        raise ValueError(
            f"{setting} is the text {method!r}: give parse({method!r}), of compressors"
        )
    if isinstance(method, Message):  # the first argument of a mod
        raise ValueError(f"client_mod is among the mods as it is: give {MOD}")
    if isinstance(method, type) or not hasattr(method, "init"):  # a class has what its values have
        name = getattr(method, "__name__", " ".join(map(str, getattr(method, "args", ()))))
        kind = type(method)
        description = repr(method) if kind.__module__ == "builtins" else f"a {kind.__name__}"
        description = f"{name}, which is not called" if callable(method) else description
        raise ValueError(
            f"{setting} is {description}: give a method, such as Raw() or parse('sbc(0.01)')"
        )


def check_record(setting: str, arrays: Any) -> None:
    """Raises ``ValueError`` where a ``setting`` that takes an ArrayRecord is given something else.

    Example:
        >>> check_record("template", {"w": 1.0})
        Traceback (most recent call last):
        ValueError: template is a dict: give an ArrayRecord, such as ArrayRecord(model.state_dict())
    """
    if not isinstance(arrays, ArrayRecord):
        raise ValueError(
            f"{setting} is a {type(arrays).__name__}: give an ArrayRecord, such as "
            "ArrayRecord(model.state_dict())"
        )


def cure(error: Error, reason: str, at: str = "train") -> str:
    """What to write where a known mistake makes a client's error; empty where none is known.

    ``reason``: what the error says, in one line; ``at``: which function of the app was called.
    """
    if error.code == ErrorCode.MOD_FAILED_PRECONDITION:
        return " (the order that works is mods=[client_mod(...), MOD]: mods after it see arrays)"
    if error.code == ErrorCode.LOAD_CLIENT_APP_EXCEPTION:
        return " (what it raised is in the log of the node)"
    if "ins.parameters" in reason:
        return (
            " (the client is a NumPyClient, of Flower's older API: write a function with "
            f"@app.{at}({MOD}), as Flower's quickstarts have it)"
        )
    if reason.endswith(_NO_ARRAYS):
        return f" (the message holds a payload, which client_mod makes arrays: @app.{at}({MOD}))"
    return ""
