"""The planners of pipelines."""
