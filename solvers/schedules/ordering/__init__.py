"""In which order a device runs what it has: 1F1B, GPipe, interleaved, zero bubble, whatever is ready."""
