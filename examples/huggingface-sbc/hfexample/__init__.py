"""A Flower app: a transformer of Hugging Face's library."""
