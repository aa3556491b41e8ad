"""Planes, curves, budgets and tables of results, and how numbers and colours look."""
