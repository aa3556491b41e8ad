"""The catalogue's rows, a file a kind; ``compressors.catalogue`` puts them into one table."""
