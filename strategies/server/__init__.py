"""Server strategies: who takes part, and how the replies are used."""
