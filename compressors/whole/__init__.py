"""Compressors of a whole update: pipelines, lifts, and what is not elementwise.

In formulas x is an update or one of its tensors, x_hat its decoded value, C the inner compressor or
codec (Q an unbiased one), <- sets what is kept until the next message, and M' is M transposed.
"""
