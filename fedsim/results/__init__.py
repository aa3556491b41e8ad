"""The results of runs on disk: their schema, and how they are loaded, merged and named."""
