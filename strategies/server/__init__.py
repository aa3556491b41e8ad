"""Server strategies: who takes part, and what becomes of the replies."""
