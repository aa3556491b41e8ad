"""Methods and coders on an update of the user's own, files of tensors, and what theory proves."""
