"""Spoiled input for everything that reads what comes from outside, and planners against brute force for hours."""
