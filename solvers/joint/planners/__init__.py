"""The planners of one pass, operator by operator."""
