"""The page's first tables: which method is best for so many bits."""

from html import escape

from fedsim.ground import units
from fedsim.results.load import Results
from fedsim.show.answer import SEEDS, best, ladder, texts
from fedsim.show.markup import html
from fedsim.show.style import metric_name

NOTE = (
    "Uplink used: bits of whole messages that a client had sent by then; 1 kbit = 1000 bit. "
    + SEEDS
)
_ABOUT = "Best within a budget"
_NONE = '<p class="note">none: the method had no evaluation within the budget.</p>'


def tables(results: Results, budget: float | None = None) -> str:
    """The best of every method within `budget`, where one is given; then the best of all methods
    for rising budgets. Empty where no run is done, or there are several tasks.

    Args:
        results: what is on the page.
        budget: in bits.

    Raises:
        UsageError: a budget is given for results of several tasks.
    """
    done = results.runs[results.runs["status"] == "done"]
    if not len(done) or budget is None and done["task"].nunique() > 1:
        return ""
    name, text = metric_name(results.runs), ""
    if budget is not None:
        reached = best(results, budget)
        text = f"<h3>Every method within {units.bits(budget)}</h3>"
        text += html(*texts(reached, name), _ABOUT)
        text += _NONE if reached["metric"].isna().any() else ""
        text += "<h3>The best of all methods, for rising budgets</h3>"
    text += html(*texts(ladder(results), name), _ABOUT)
    return f'{text}<p class="note">{escape(NOTE)}</p>'
