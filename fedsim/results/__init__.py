"""What a run leaves on disk: its schema, how it is loaded, merged and named."""
