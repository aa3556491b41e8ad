"""The report's parts in words and tables; all text from files is escaped."""

import json
import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from fedsim.ground import units
from fedsim.ground.errors import UsageError, without_home
from fedsim.ground.strangers import MOST_TEXT, read_file
from fedsim.results.labels import VARIANT, delay_symbol
from fedsim.results.load import Results
from fedsim.results.merge import differing_keys, settings_of
from fedsim.results.neutral import neutral
from fedsim.results.schema import OF_TASK
from fedsim.settings.config import SETTINGS, default_of
from fedsim.settings.strategies import FLAGS
from fedsim.show.answer import SEEDS, best, ladder, texts
from fedsim.show.columns import failures_told
from fedsim.show.markup import facts, html
from fedsim.show.style import metric_name
from fedsim.show.tables import Texts, summary_texts

_UNITS = {"timeout": "timeout (seconds)"}
_NONE = '<p class="note">none: the method had no evaluation within the budget.</p>'
USED = {
    "up": "Uplink used: bits of payloads that a client had sent by then; 1 kbit = 1000 bit. ",
    "total": "Bits used: of payloads that a client had sent and received by then; "
    "1 kbit = 1000 bit. ",
}


def answers(results: Results, budget: float | None = None, budget_of: str = "up") -> str:
    """The best of every method within `budget`, where one is given; then the best of all methods
    for rising budgets. Empty where no run is done.
    """
    if not len(results.done):
        return ""
    name, symbol, text = metric_name(results.runs), delay_symbol(results.runs), ""
    if budget is not None:
        reached = best(results, budget, budget_of)
        text = f"<h3>Every method within {units.bits(budget)}</h3>"
        text += html(*texts(reached, name, symbol), "Best within a budget")
        text += _NONE if reached["metric"].isna().any() else ""
        text += "<h3>The best of all methods, for rising budgets</h3>"
    text += html(*texts(ladder(results, budget_of), name, symbol), "Best within a budget")
    return f'{text}<p class="note">{escape(USED[budget_of] + SEEDS)}</p>'


def summary(results: Results) -> str:
    """The summary table, a row per cell, as on the terminal; of several seeds, folded, a row per
    run."""
    texts = summary_texts(results.runs)
    points = any("points" in heading for heading in texts[0])
    averaged = results.runs["seed"].nunique() > 1
    note = "1 kbit = 1000 bit." + (" Points are percentage points." if points else "")
    note += " Mean ± sample standard deviation (seeds)." if averaged else ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in failures_told(results.runs))
    not_used = f"<p>Replies that were asked for and not used:</p><ul>{lines}</ul>" if lines else ""
    table = _rows_shown(texts, "Summary table")
    if averaged:
        single = _rows_shown(summary_texts(results.runs, per_seed=True), "Table of single runs")
        table += f"<details><summary>A row per run</summary>{single}</details>"
    return f'{table}{not_used}<p class="note">{note}</p>'


def _rows_shown(texts: Texts, about: str) -> str:
    headings, rows, meanings = texts
    return html(headings, [row for row, _ in rows], about, [kind for _, kind in rows], meanings)


def failures_section(results: Results) -> str:
    """The failed cells, each with its error and, folded, its traceback; empty where none failed."""
    failed = results.runs[results.runs["status"] != "done"]
    parts = []
    for name, run in failed.iterrows():
        error = run["error"] if isinstance(run["error"], str) else "no message was recorded"
        trace = results.folders[str(name)] / "error.txt"
        text = neutral(_text(trace)) if os.path.lexists(trace) and not trace.is_dir() else error
        parts.append(
            f"<li><strong>{escape(str(name))}</strong>: <code>{_public(error)}</code>"
            f"<details><summary>Traceback</summary><pre>{_public(text)}</pre></details></li>"
        )
    return f"<ul>{''.join(parts)}</ul>" if parts else ""


def _text(file: Path) -> str:
    """The text of a run's file; ``UsageError`` for a link to elsewhere or a special file."""
    try:
        return read_file(file, MOST_TEXT).decode("utf-8", errors="replace")
    except ValueError as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def settings_section(results: Results) -> str:
    """The settings that trained the models, with defaults; then those of each `config.toml`."""
    values: dict[str, list[str]] = {}
    for name, trained in results.trained.items():
        for key, value in trained.items():
            text = value if isinstance(value, str) else json.dumps(value)
            typed, whose = results.configs[name].get(key), ""
            if key in (*OF_TASK, "optimizer", "lr_steps", "weight_decay"):
                whose = "the task's default" if typed is None else ""
            elif key in {**SETTINGS, **FLAGS} and typed in (None, default_of(key)):
                whose = "default"  # what is not known, a newer version wrote
            shown = f"{text} ({whose})" if whose else text
            if value not in (None, []) and shown not in values.setdefault(key, []):
                values[key].append(shown)
    table = facts({key: _several(texts) for key, texts in values.items() if texts})
    if table:
        table = f"<h3>What trained the models</h3>{table}<h3>As given</h3>"
    given_tables = {name: table or None for name, table in results.configs.items()}
    return _by_method(results) + table + _listing(given_tables, "config.toml")


def _by_method(results: Results) -> str:
    """A table of the settings in which methods differ, a row per method; empty where none do."""
    if VARIANT not in results.runs.columns:
        return ""
    settings_by_run = settings_of(results.configs)
    keys, rows = differing_keys(settings_by_run), []
    for label, runs in results.runs.groupby("label"):
        of = [settings_by_run[name] for name in map(str, runs.index) if name in settings_by_run]
        values = [dict.fromkeys(_default(settings[key]) for settings in of) for key in keys]
        rows.append([str(label), *("; ".join(distinct) for distinct in values)])
    table = html(["method", *keys], rows, "Settings in which methods differ")
    return f"<h3>In which methods differ</h3>{table}"


def _default(value: Any) -> str:
    return "default" if value is None else without_home(str(value))


def versions(results: Results) -> str:
    """The machines and versions in the runs' `environment.json`."""
    file = "environment.json"
    tables: dict[str, Any] = {}
    for name, folder in results.folders.items():
        try:
            tables[name] = neutral(json.loads(_text(folder / file)))
        except (OSError, json.JSONDecodeError):
            tables[name] = None
        except RecursionError as error:
            raise UsageError(f"{folder / file}: its values are nested too deeply") from error
    return _listing(tables, file)


def _listing(tables: Mapping[str, Any], file: str) -> str:
    """A table of the runs' `file`: a row per key, with the values that occur."""
    values: dict[str, list[str]] = {}
    for table in tables.values():
        for key, value in _flat({} if table is None else table).items():
            distinct = values.setdefault(_UNITS.get(key, key), [])
            if value not in distinct:
                distinct.append(value)
    shown = facts({key: _several(of) for key, of in values.items()})
    if unread := [name for name, table in tables.items() if table is None]:
        shown += f'<p class="note">{file} cannot be read in: {escape(", ".join(unread))}.</p>'
    return shown


def _several(values: Sequence[str]) -> str:
    # More than a few values (times, hashes) say nothing that the runs' own files do not.
    shown = "; ".join(f"<code>{_public(value)}</code>" for value in values[:12])
    return shown + (f" and {len(values) - 12} more" if len(values) > 12 else "")


def _public(text: str) -> str:
    """Text from a file for a page that may be shared: escaped, without the user's home."""
    return escape(without_home(text))


def _flat(tree: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(tree, dict):
        return {prefix or "value": tree if isinstance(tree, str) else json.dumps(tree, default=str)}
    flat: dict[str, str] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return flat
