"""``fedsim completion``: a script that completes commands, flags and names in a shell."""

import argparse
from typing import Any

from compressors.catalogue import ROWS
from fedsim.settings.strategies import STRATEGIES
from fedsim.tasks.tasklist import LISTED

SHELLS = ("bash", "zsh")
COMPLETED = {
    "--task": tuple(LISTED),
    "--method": tuple(row.name for row in ROWS),
    "--strategy": STRATEGIES,
}
"""Flag -> the names that are completed after it."""


def add_completion(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands and flags in bash or zsh",
        description="Prints a script for a shell, which then completes commands, flags, files, "
        "and names of tasks, methods and strategies. In bash: `fedsim completion bash > "
        "~/.local/share/bash-completion/completions/fedsim`. In zsh the script is a file "
        "`_fedsim` in a folder of $fpath.",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=" or ".join(SHELLS))
    parser.set_defaults(command=_command, extra="completion")


def _command(flags: argparse.Namespace) -> int:
    import shtab

    for parser in flags.parsers.values():
        for action in parser._actions:
            metavar = str(action.metavar)
            if (flag := (*action.option_strings, "")[0]) in COMPLETED:
                action.choices = COMPLETED[flag]
            elif metavar == "DIR":
                action.complete = shtab.DIRECTORY
            elif "FILE" in metavar:
                action.complete = shtab.FILE
    print(shtab.complete(flags.top, flags.shell))
    return 0
