"""The planners of chains of downsets."""
