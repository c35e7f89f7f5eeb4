"""Searching for pipelines of stages: costs, decompositions, estimates and moves over super-operators."""
