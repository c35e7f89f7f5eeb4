"""What a plan costs, computed a second time on objects: slow, and independent of `solvers.evaluation`."""
