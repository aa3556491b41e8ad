"""Which entries travel: vectors to sorted positions.

In formulas x_i is the i-th of n entries of a tensor, S the set of positions that travel, and x_hat
what float32 as the quantizer decodes. Of equal magnitudes the lowest index is chosen first.
"""
