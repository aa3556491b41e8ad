"""Python imports this at its start if the folder is in PYTHONPATH (``tests/support/polling.py``).

A SuperNode, and Flower's ``send_and_receive``, sleep three seconds between two looks for messages.
No setting changes it.
"""

import time

_sleep = time.sleep


def sleep(seconds: float) -> None:
    """Sleeps; a fifth of a second where Flower asks for three."""
    _sleep(0.2 if seconds == 3 else seconds)


time.sleep = sleep
