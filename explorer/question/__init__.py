"""From what a person names (a model, a cluster, pins, units) to a problem."""
