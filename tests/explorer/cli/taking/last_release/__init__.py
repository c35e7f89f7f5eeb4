"""What the last release wrote and took, which this one opens: its links, plan files, notebooks, flags and names."""
