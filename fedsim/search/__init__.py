"""The search: which method, delay, fraction, coder and rate are best for a task and a budget."""
