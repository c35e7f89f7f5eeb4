"""From a plan to a chain of stages and the modules of each."""
