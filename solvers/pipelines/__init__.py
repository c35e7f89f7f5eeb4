"""Pipelines of stages for the time of an iteration: what its sub-rooms and planners share."""
