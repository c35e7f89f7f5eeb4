"""A pass of single operators as arrays: what it takes, what it holds, and the plan that it is."""
