"""Proved lower bounds on the makespan of one unsplit pass of single operators.

shape: the pass as arrays, what waits for what, and what transfers take at least. colocation: what shares a device.
quick: what is computed before every search, devices divided in fractions. improve: whether a makespan can be ruled
out, and the longest that can.
"""
