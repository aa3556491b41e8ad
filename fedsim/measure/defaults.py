"""The default methods of ``measure_coders``, as texts, which the help of a flag names too."""

POSITIONS_OF, SYMBOLS_OF = "topk({p}) | float32", "qsgd(256)"
"""The methods whose positions and whose symbols are coded."""
