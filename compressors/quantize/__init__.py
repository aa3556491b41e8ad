"""The values of the entries that travel: to symbols and back.

In formulas x_i is the i-th value of a tensor, or of what a sparsifier chose of it, x_hat_i its
decoded value, k the number of values, and j runs over all of them if nothing else is written. A
product has no sign, powers have ^. sign(0) = 0 if nothing else is written, and "with chance" means
by the noise of the seed and i.
"""
