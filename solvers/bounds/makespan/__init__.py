"""Proved lower bounds on the makespan of one unsplit pass of single operators.

precedence: what waits for what, and what transfers take at least. shape: the pass as arrays. shared_load: devices
shared out in fractions. colocation: what shares a device. quick: what is computed before every search. refute:
whether a makespan can be ruled out. improve: the longest makespan ruled out.
"""
