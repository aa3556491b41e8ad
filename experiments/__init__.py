"""Published tables and figures, again: a folder each, and ``common`` for what they share."""
