"""A pass of clusters as an integer program and as a constraint program."""
