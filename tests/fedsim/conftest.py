"""What the tests of fedsim share."""

from tests.support.commands import no_page, typed
from tests.support.realupdate import real
from tests.support.runs import done, finished, make_task, not_tried
from tests.support.together import together

__all__ = ["done", "finished", "make_task", "no_page", "not_tried", "real", "together", "typed"]
