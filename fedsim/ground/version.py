"""The version of fedsim, as ``pyproject.toml`` and ``CITATION.cff`` have it.

It stands in the code, since a checkout may have been installed as an earlier version: what is
written into results says which rules they were made by (``fedsim.settings.versions``).
"""

VERSION = "0.2.0.dev0"
