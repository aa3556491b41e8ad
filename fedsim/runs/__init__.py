"""Runs and sweeps: what carries them out, records them, resumes them and shows how far they are."""
