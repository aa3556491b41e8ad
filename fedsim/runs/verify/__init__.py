"""Whether a run's folder holds what the run did: its sums, its messages, its model, its rounds."""
