"""How the positions of sent entries are written: sorted indices to bits and back."""
