"""What a run tells TensorBoard, Weights & Biases and MLflow, a file each."""
