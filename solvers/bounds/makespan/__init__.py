"""Proved lower bounds on the makespan of one unsplit pass of single operators.

ways: what waits for what, and what transfers take at least. shape: the pass as arrays. shared_load: devices shared
out in fractions. beliefs: what shares a device. quick: what is told before every search. refute: whether a
makespan can be ruled out. improve: the longest makespan ruled out.
"""
