"""Algorithms that at most one of the experiments uses, under the same contract as all.

They are in the table of ``strategies.algorithms``, in the pairs table and in the contract suite as
all others, and no other room imports them.
"""
