"""How symbols are written, losslessly: integers below an alphabet to bits and back."""
