"""Trackers that log a run to TensorBoard, Weights & Biases and MLflow, a file each."""
