"""From a placement, or from stages without devices, to a plan."""
