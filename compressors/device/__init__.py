"""Messages of updates on a GPU: selected, quantized and coded where they are; only bytes cross."""

GPU_DEVICES = {"cuda"}
"""Kinds of devices whose updates the kernels take. Tests add the CPU, for Triton's interpreter."""
