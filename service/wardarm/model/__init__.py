"""Model files: what is served, whether a file honours the contract, and the way to a TensorRT plan (`wardarm model`)."""
