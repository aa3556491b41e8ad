"""Methods that send differences, and the strategies that add them up: neither goes without.

What needs torch is imported when a run is checked: the names of strategies are read without it.
"""

from typing import TYPE_CHECKING

from fedsim.ground.errors import UsageError

if TYPE_CHECKING:
    from compressors import Compressor


EXAMPLES = {"ef21": "ef21(topk(0.01) | float32)", "diana": "diana(qsgd(7))",
            "marina": "marina(randk(0.1) | float32, 0.1)"}  # fmt: skip
"""A method of each strategy that adds up differences; both have one name."""


def check_added(
    method: str, uplink: "Compressor", down: str | None, downlink: "Compressor", serves: str
) -> None:
    """Refuses a method that another strategy serves, and updates where differences are added up.

    ``serves``: the name of the strategy's method, empty where the strategy takes updates.
    """
    from compressors.whole.keepers import needs_server
    from strategies.channel.directions import directs

    own = getattr(uplink, "server", "")  # of the whole, not of a part
    if serves and own != serves:
        raise UsageError(
            f"--method is {method!r}: strategy {serves} adds up differences and takes a method "
            f"that sends them, such as {EXAMPLES[serves]!r}"
        )
    other = needs_server(uplink)
    if other != serves:
        raise UsageError(
            f"--method is {method!r}: what {other} sends are differences, which are added up by "
            f"--strategy {other}"
        )
    below = needs_server(downlink)
    if below and not (directs(downlink) and below == serves):
        raise UsageError(
            f"--downlink is {down!r}: what {below} sends are differences; ef21(...) goes down with "
            "--strategy ef21, and no other does"
        )
