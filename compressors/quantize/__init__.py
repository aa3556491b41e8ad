"""The values of the entries that travel: to symbols and back."""
