"""The version of fedsim, as ``pyproject.toml`` and ``CITATION.cff`` have it.

It is in the code, since a checkout may have been installed as an earlier version. Results contain
it, so that readers know the rules of that version (``fedsim.settings.versions``).
"""

VERSION = "0.2.0.dev0"
