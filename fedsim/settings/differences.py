"""EF21's method and EF21's strategy belong together: neither goes with another.

What needs torch is imported when a run is checked: the names of strategies are read without it.
"""

from typing import TYPE_CHECKING

from fedsim.errors import UsageError

if TYPE_CHECKING:
    from compressors import Compressor


def check_uplink(method: str, uplink: "Compressor", late: str) -> None:
    """Refuses methods whose messages are whole updates where differences are added up.

    And late updates that are dropped: the client counts on a sum that the server does not have.
    """
    from compressors.whole.differences import Differences

    if not isinstance(uplink, Differences):
        raise UsageError(
            f"--method is {method!r}: strategy ef21 adds up differences and takes a method "
            "that sends them, such as 'ef21(topk(0.01) | float32)'"
        )
    if late == "drop":
        raise UsageError(
            "--late is 'drop': strategy ef21 adds up differences, and without one of them the "
            "server's sum is no longer the client's; give --late hold or count"
        )


def check_added(
    method: str, uplink: "Compressor", down: str | None, downlink: "Compressor", adds: bool
) -> None:
    """Refuses methods that send differences where the strategy does not add them up (``adds``)."""
    from compressors.whole.differences import sends_differences

    wrong = sends_differences(uplink) and not adds
    if not wrong and not sends_differences(downlink):
        return
    given = f"--method is {method!r}" if wrong else f"--downlink is {down!r}"
    raise UsageError(
        f"{given}: what ef21 sends are differences, which are added up by --strategy ef21, and on "
        "no downlink"
    )
