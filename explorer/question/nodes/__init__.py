"""Clusters described by their nodes: a few lines in place of a list of all links."""
