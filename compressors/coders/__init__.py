"""Lossless coders of positions and of symbols."""
