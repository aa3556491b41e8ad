"""Compressors of a whole update: pipelines, lifts, and what is not elementwise."""
