"""Kernels for updates on a GPU, in Triton: every tensor of an update in one launch.

Each kernel has its twin among the compiled loops beside this folder, and gives the same bits.
Triton's interpreter runs them on a CPU (``TRITON_INTERPRET=1``, set before the first import),
which is how they are tested where there is no GPU.
"""
