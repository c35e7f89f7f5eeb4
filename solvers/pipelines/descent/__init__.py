"""Local search over graphs of stages: what may be changed, and by how much it seems to help."""
