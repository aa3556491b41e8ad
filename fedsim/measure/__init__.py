"""Methods and coders on an update of the user's own, and files of tensors."""
