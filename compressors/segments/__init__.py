"""One pass for an update on the CPU: compiled loops over all of its tensors, the same bytes."""

CPU_DEVICES = {"cpu"}
"""Kinds of devices whose updates go in one pass. Tests take the CPU out, to compare both ways."""
