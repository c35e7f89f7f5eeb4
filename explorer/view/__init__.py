"""Values in, plain dicts out: all that a page or a terminal shows of a plan, a run, a comparison."""
