"""``python -m fedsim``."""

from fedsim.commands.cli import script

script()
