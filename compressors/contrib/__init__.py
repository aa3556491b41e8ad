"""Methods and parts that at most one of the experiments uses, under the same contract as all.

They have names, golden bytes and the contract suite as those of ``sparsify``, ``quantize``,
``coders`` and ``whole``, and no other room but the catalogue imports them. In formulas the letters
mean what those rooms say.
"""
