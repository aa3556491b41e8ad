"""Methods and coders on an update of the user's own, files of tensors, and what theory proves."""

POSITIONS_OF, SYMBOLS_OF = "topk({p}) | float32", "qsgd(256)"
"""The methods whose positions and symbols ``measure_coders`` codes where none is named."""
