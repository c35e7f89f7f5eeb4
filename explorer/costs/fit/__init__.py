"""Fits `costs.curves` to measured kernels: ``python -m explorer.costs.fit FOLDER``."""
