"""Planners, by name and by file."""
