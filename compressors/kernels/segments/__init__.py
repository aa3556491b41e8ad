"""Loops over the segments of an update in one call: its tensors, or all of them as one vector."""
