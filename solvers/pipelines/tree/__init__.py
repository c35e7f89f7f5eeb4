"""Stages from the series-parallel tree of a graph, by dynamic programme: where the search starts."""
