"""What a plan costs, told a second time in objects: slow, and independent of the columns of `solvers.evaluation`."""
