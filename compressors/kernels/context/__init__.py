"""Kernels of the position coder ``context`` alone."""
