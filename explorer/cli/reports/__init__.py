"""What commands print: plans, passes, runs, comparisons, calibrations."""
