"""Models, and parts of models, that several tasks share."""
