"""Results of several folders side by side: what their runs are called, which are the same, and
in which settings they differ."""

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedsim.ground.errors import UsageError
from fedsim.results.schema import KEYS, METHOD_FACTS, OF_TASK, TRAINED
from fedsim.settings import contents
from fedsim.settings.config import SETTINGS, default_of
from fedsim.settings.contents import CONTENT, START
from fedsim.settings.strategies import is_among
from fedsim.settings.versions import FORMER
from strategies.algorithms import CODED, OWN_DOWNLINK

Cells = Mapping[str, dict[str, Any]]
"""The dicts of ``summary.json`` by the run's name."""

_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_BESIDE = (*KEYS, "evaluate_every")  # when the server looks does not change what it finds
_SETTINGS = [name for name, setting in SETTINGS.items() if setting.result and name not in _BESIDE]
_SCORED = ("test_samples", "validation")
_MASKING, _EPOCHS = "momentum_masking", "local_epochs"
_COMPARED = ("clients", "iterations", "parameters", "metric", "up_wire_bits")
_DIGEST = re.compile(r"sha256 \w+")
_VERSION = re.compile(r"\d+(\.\d+)+\S*")


def unique_names(paths: Sequence[Path]) -> dict[str, Path]:
    """Each folder by its name, or by its path where two have the same name.

    Raises ``UsageError`` for a folder that is given twice.
    """
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(f"{path} is given twice: give each folder of results once")
    names = [place.name for place in places]
    is_ambiguous = len(set(names)) < len(names)
    return {str(path) if is_ambiguous else path.resolve().name: path for path in paths}


def repeats(cells: Cells) -> bool:
    """Whether two runs are of the same task, method, n, p and seed."""
    places = [tuple(cell[key] for key in KEYS) for cell in cells.values()]
    return len(set(places)) < len(places)


def with_typed_masking(
    configs: Mapping[str, dict[str, Any]], cells: Cells
) -> dict[str, dict[str, Any]]:
    """Each run's settings with momentum masking as users set it: ``auto`` if it is the method's.

    Folders have ``on`` or ``off`` for it, or 0.1.0's ``auto``, which is ``ef`` today. If all runs
    are of that version, this is the default. Among others, a run differs if it masked what its
    method, as it is today, does not mask. If a method has runs with both, the setting was varied.
    """
    values = {config.get(_MASKING) for config in configs.values() if config}
    before = not any("masks" in cell[METHOD_FACTS] for cell in cells.values())
    of_method: dict[str, set[Any]] = {}
    for name, config in configs.items():
        of_method.setdefault(cells[name]["method"], set()).add(config.get(_MASKING))
    plain = {}
    for name, config in configs.items():
        value, by_method = config.get(_MASKING), _masks_by_method(cells[name])
        if value == FORMER and (before or values == {FORMER}):
            value = default_of(_MASKING)
        elif value == FORMER:
            value = "on" if _masked(cells[name]) else "off"
        varied = {"on", "off"} <= of_method[cells[name]["method"]]
        if not (before or varied) and value == ("on" if by_method else "off"):
            value = default_of(_MASKING)
        plain[name] = config if _MASKING not in config else {**config, _MASKING: value}
    return plain


def _masks_by_method(cell: Mapping[str, Any]) -> bool:
    """Whether a run's method masks, as it is today; of 0.1.0 none does that is not called sbc."""
    facts = cell[METHOD_FACTS]
    return bool(facts["masks"] if "masks" in facts else re.search(r"\bsbc\b", facts["form"]))


def _masked(cell: Mapping[str, Any]) -> bool:
    """Whether momentum was masked in a run: it had some, and sent a part of the entries."""
    trained = cell.get(TRAINED) or {}
    momentum = trained.get("momentum") or trained.get("optimizer") != "SGD"
    return bool(trained.get(_MASKING) and momentum and cell.get("up_share", 0) != 1)


def settings_of(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings of each run on which its numbers depend, without its cell.

    A setting that was not given has its default. Runs whose `config.toml` cannot be read, and is
    empty here, are left out.
    """
    settings = {}
    for name, table in configs.items():
        if not table:
            continue
        values = {key: table.get(key, default_of(key)) for key in _SETTINGS}
        if values["downlink"] == "raw" and not is_among(values["strategy"], OWN_DOWNLINK):
            values["downlink"] = None  # which it stands for
        settings[name] = values
    return settings


def differing_keys(settings: Mapping[str, dict[str, Any]]) -> list[str]:
    """The settings that are not the same in all runs."""
    runs = list(settings.values())
    return [key for key in (runs[0] if runs else ()) if any(r[key] != runs[0][key] for r in runs)]


def variants(cells: Cells, settings: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """In what each run differs from the others of its task, as its label says it: `lr = 0.05`.

    Empty for a run that has every such setting at its default.
    """
    return {
        name: ", ".join(f"{key} = {x}" for key, x in varied.items() if x != default_of(key))
        for name, varied in differences_of(cells, settings).items()
    }


def differences_of(
    cells: Cells, settings: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The settings in which each run differs from the others of its task, as they were given.

    One that names what is the task's anyway counts as not given.
    """
    differences = dict[str, dict[str, Any]]((name, {}) for name in cells)
    for names in _by_task(cells).values():
        compared = {name: settings[name] for name in names if name in settings}
        compared = _as_reference(cells, compared)
        trained = {name: cells[name].get(TRAINED) or {} for name in compared}
        for key in OF_TASK:  # a setting that names what is the task's anyway
            default = [trained[n].get(key) for n, values in compared.items() if values[key] is None]
            for name, values in compared.items():
                if values[key] is not None and trained[name].get(key, values) in default:
                    values[key] = None
        keys = differing_keys(compared)
        if all(values[_EPOCHS] is not None for values in compared.values()):
            keys = [key for key in keys if key != _EPOCHS]  # it is the delay of all cells
        for name, values in compared.items():
            differences[name] = {key: values[key] for key in keys}
    return differences


def differing_columns(
    cells: Cells, differences: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """The settings in which runs differ as columns of a table, defaults filled in; in the cells'
    order. Columns that the summaries have are left out.
    """
    names = [name for name in SETTINGS if any(name in table for table in differences.values())]
    taken = {key for cell in cells.values() for key in cell}
    columns = {}
    for name in (name for name in names if name not in taken):
        varied = [differences[run].get(name, default_of(name)) for run in cells]
        trained = [cell.get(TRAINED) or {} for cell in cells.values()]
        values = [table.get(name, value) for table, value in zip(trained, varied, strict=True)]
        plain = all(isinstance(value, int | float | None) for value in values)
        columns[name] = [v if plain or v is None else str(v) for v in values]
    return columns


def _as_reference(
    cells: Cells, settings: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Settings in which the reference has its methods' values if these do not affect raw sending.

    A sweep of votes or integers gives it the mean (`SweepConfig`), as raw is not a code. Raw
    sending has no residuals for which momentum would be masked, and its downlink is always raw.
    """
    raw = [name for name in settings if cells[name].get("method") == "raw"]
    compared = {name: dict(table) for name, table in settings.items()}
    lossy = {table["downlink"] for name, table in settings.items() if name not in raw}
    for name in raw if len(lossy) == 1 else ():
        if (cells[name]["temporal"], cells[name]["gradient"]) == (1, 1):
            compared[name]["downlink"] = compared[name]["downlink"] or min(lossy, key=str)
    for key, standard in (("strategy", "dsgd"), (_MASKING, "auto")):
        others = {table[key] for name, table in settings.items() if name not in raw}
        if len(others) != 1:
            continue
        value = min(others)
        # What raw sending cannot have.
        if value == "off" if key == _MASKING else is_among(str(value), CODED):
            for name in raw:
                if str(compared[name][key]).partition("(")[0] == standard:
                    compared[name][key] = value
    return compared


def check_comparable(
    cells: Cells,
    settings: Mapping[str, dict[str, Any]],
    folders: Mapping[str, Path],
    configs: Mapping[str, Mapping[str, Any]],
    scored: bool,
) -> None:
    """Refuses runs of one task that no table may hold together; warns of unlike initial weights.

    ``scored``: whether all must score the same samples: in a sweep it may be what is varied.

    Raises ``UsageError`` for other metrics, models, data, files of the user's own or scored
    samples.
    """
    began: dict[tuple[Any, ...], tuple[str, str]] = {}
    for names in _by_task(cells).values():
        first_of: dict[str, tuple[str, Any, Any]] = {}
        for name in names:
            cell = cells[name]
            facts = {key: cell.get(key) for key in ("metric_name", "parameters", "data_source")}
            facts |= {k: settings[name][k] for k in _SCORED if scored and name in settings}
            content, strategy = configs[name].get(CONTENT, {}), configs[name].get("strategy", "")
            facts |= contents.file_digests(content, str(strategy))
            for key, value in facts.items():
                if value is None and key not in _SCORED:
                    continue  # a run that failed before it was known
                same = value
                if key == "data_source":  # a digest tells; the form on disk and versions do not
                    digest = _DIGEST.search(str(value))
                    same = digest.group() if digest else _VERSION.sub("", str(value))
                first, before, expected = first_of.setdefault(key, (name, value, same))
                if expected != same:
                    raise UsageError(
                        f"{folders[first]} and {folders[name]} cannot stand in one table: "
                        f"{key} is {before!r} in the one and {value!r} in the other"
                    )
            _warn_of_start(began, folders[name], cell, configs[name])


def _warn_of_start(
    began: dict[tuple[Any, ...], tuple[str, str]],
    folder: Path,
    cell: Mapping[str, Any],
    config: Mapping[str, Any],
) -> None:
    """Warns where a run began with other weights than one of its task and seed that was seen."""
    if weights := config.get(START, {}).get("weights"):
        key = cell["task"], cell["seed"], config.get("weights")
        other, before = began.setdefault(key, (str(folder), weights))
        if before != weights and (other, str(folder)) not in _WARNED:
            _WARNED.add((other, str(folder)))
            logging.getLogger("fedsim").warning(
                "%s and %s have the seed %d and other initial weights: torch, or the task, changed "
                "between them",
                other,
                folder,
                cell["seed"],
            )


_WARNED: set[tuple[str, str]] = set()


def without_repeated(
    cells: Cells,
    folders: Mapping[str, Path],
    settings: Mapping[str, Any],
    varied: Mapping[str, str],
    labels: Mapping[str, str] = _NO_LABELS,
) -> dict[str, dict[str, Any]]:
    """`cells` by name, each run once: the first that is done of those with the same settings.

    ``labels``: names that tell runs of the same settings apart.

    Raises ``UsageError`` where two runs of one cell have other numbers, and it cannot be read
    whether they have other settings.
    """
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, cell in cells.items():
        down = (settings.get(name) or {}).get("downlink")
        place = *(cell[key] for key in KEYS), down, varied[name], labels.get(name, "")
        groups.setdefault(place, []).append(name)
    unique: dict[str, dict[str, Any]] = {}
    for names in groups.values():
        done = [name for name in names if cells[name]["status"] == "done"]
        name, *others = done or names
        for other in others if {*names} - {*settings} else ():
            pairs = {key: (cells[name].get(key), cells[other].get(key)) for key in _COMPARED}
            if differ := [f"{key} {a!r} and {b!r}" for key, (a, b) in pairs.items() if a != b]:
                raise UsageError(
                    f"{folders[name]} and {folders[other]} are the same cell with different "
                    f"numbers ({'; '.join(differ)}), and a config.toml that would tell them apart "
                    "cannot be read: load one of them"
                )
        unique[name] = cells[name]
    return unique


def _by_task(cells: Cells) -> dict[str, list[str]]:
    by_task: dict[str, list[str]] = {}
    for name, cell in cells.items():
        by_task.setdefault(cell["task"], []).append(name)
    return by_task
