"""``python -m fedsim``."""

from fedsim.cli import main

raise SystemExit(main())
