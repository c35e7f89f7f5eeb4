"""Operators and stages as boxes: where they stand, how they look, what is said of one."""
