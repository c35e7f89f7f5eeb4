"""Components made of values: panels, the list of runs, the stylesheet of the graph."""
