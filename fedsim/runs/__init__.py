"""Runs and sweeps, and the Flower app: what carries them out, records, resumes and shows them."""
