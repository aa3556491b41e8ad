"""The errors a user can cause, all refused before any work starts."""


class UsageError(ValueError):
    """Bad input: the message names the setting, its value and what is allowed."""


class DataError(UsageError):
    """A data set is not where the task looks for it; the message says where to put it."""


class RunFailed(RuntimeError):
    """A run could not go on (too few clients answered, a weight is not finite)."""
