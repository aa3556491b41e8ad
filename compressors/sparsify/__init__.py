"""Which entries travel: vectors to sorted positions."""
