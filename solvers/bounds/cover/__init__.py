"""A proved bound without contiguity: how many sets of bounded load cover the graph (column generation)."""
