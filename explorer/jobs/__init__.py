"""Trace, solve, compare and run as kinds of job in a warm worker: what is asked, what does it, how it is reported."""
