"""Compressors of a whole update: pipelines, what stands around them, and what is not elementwise."""
