"""The answer: stages and orders, the schedule they make, the result of a search; and what is contiguous."""
