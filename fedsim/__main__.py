"""``python -m fedsim``."""

from fedsim.cli import script

script()
