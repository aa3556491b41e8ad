"""Compiled inner loops (numba): bits, Rice codes, exact selection. Each has a slow twin."""
