"""Files that a check may open and execute: the folder's own, and those that the command line names.

A stranger's ``config.toml`` may name code, data, weights and traces anywhere on this machine, and
ask for downloads. None of that is done.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compressors.grammar import split_text
from fedsim.ground.errors import UsageError, reason
from fedsim.ground.strangers import read_toml
from fedsim.settings import contents, trust_check, versions
from fedsim.settings.config import RunConfig, flat_settings, run_from_flat
from fedsim.tasks.registry import is_builtin


@dataclass(frozen=True)
class Permissions:
    """The files that the command line names."""

    code: Collection[str] = ()  # of tasks and strategies, as ``FILE.py:NAME``
    data: str | None = None  # the folder of data sets; None: none is read
    files: Collection[str] = ()  # weights, networks and traces that runs name

    def values(self, file: Path) -> dict[str, Any]:
        """The values in a file of settings, in today's words.

        Raises ``UsageError``, which names the flag, where they name what is not allowed.
        """
        try:
            written = read_toml(file)
        except (OSError, ValueError) as error:
            raise UsageError(f"{file.name} cannot be read: {reason(error)}") from error
        origins = trust_check.origins(self.code)
        for setting, text in trust_check.named_texts(written, _NAMING):
            if setting in trust_check.CODE and ":" in text:
                if trust_check.origin_of(text) not in origins:
                    raise UsageError(
                        f"its {setting} is {text}, whose file is executed if you say so "
                        f"(--own {text})"
                    )
            elif (named := _file_of(setting, text)) and not self._is_open(named, file.parent):
                raise UsageError(
                    f"its {setting} names {named}, which is opened if you say so (--file {named})"
                )
        return versions.meant(written, file)

    def config(self, folder: Path) -> RunConfig:
        """The settings in a run's folder, with the data of the command line and without downloads.

        Raises ``UsageError`` as ``values``, and where files have changed.
        """
        file = folder / "config.toml"
        values = flat_settings(self.values(file), str(file))
        config = run_from_flat({**values, "data": self.data, "download": False})
        changed = contents.differing(contents.recorded_content(folder), config.content)
        if changed:
            raise UsageError(f"files have changed ({'; '.join(changed)})")
        return config

    def _is_open(self, file: str, folder: Path) -> bool:
        place = Path(file).resolve()
        return place in {Path(name).resolve() for name in self.files} or (
            place.is_relative_to(folder.resolve())
        )

    def why_not_scored(self, config: RunConfig) -> str:
        """Why a run's model cannot be scored here; empty where it can be."""
        task = config.plan.task
        if not is_builtin(task) or task.name in WITH_FEDSIM or self.data is not None:
            return ""
        return f"the data of task {task.name} are not with fedsim: give --data DIR"


WITH_FEDSIM = ("digits",)
"""Tasks whose data need no folder: they come with a library that fedsim requires."""


_NAMING = (*trust_check.CODE, "weights", "network", "preset", "trace", "availability")


def _file_of(setting: str, text: str) -> str:
    """The file that a setting names; empty where it names none.

    Example:
        >>> _file_of("weights", "a.safetensors@0123456789abcdef"), _file_of("trace", "'b.csv'")
        ('a.safetensors', 'b.csv')
        >>> _file_of("partition", "a.csv@0123456789abcdef"), _file_of("partition", "iid")
        ('a.csv', '')
        >>> _file_of("network", "4g, trace=b.csv"), _file_of("network", "up=1Mbit")
        ('b.csv', '')
    """
    text = text.strip()
    if setting in ("weights", "partition"):
        text = re.sub("@[0-9a-f]{16}$", "", text)
        return text if setting == "weights" or text.endswith(".csv") else ""
    if setting in trust_check.CODE:
        return ""
    if setting == "trace":
        return text.strip("'\"")
    if text.endswith(".csv" if setting == "availability" else ".toml"):
        return text
    for item in split_text(text) if setting != "availability" else ():
        key, _, value = item.partition("=")
        if key.strip().replace("-", "_") == "trace":
            return value.strip().strip("'\"")
    return ""
