"""Stages from the series-parallel tree of a graph, by dynamic program: where the search starts."""
