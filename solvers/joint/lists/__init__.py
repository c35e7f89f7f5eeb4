"""List scheduling of one pass of operators: Baechi's planners (SoCC 2020), HEFT (2002) and the split of layers."""
