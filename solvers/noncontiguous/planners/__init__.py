"""The planners that place any sets of operators."""
