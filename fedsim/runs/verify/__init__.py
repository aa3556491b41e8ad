"""Checks of a run's folder against the run: its sums, its messages, its model, its rounds."""
