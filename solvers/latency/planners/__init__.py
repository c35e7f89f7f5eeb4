"""The planners of one sample."""
