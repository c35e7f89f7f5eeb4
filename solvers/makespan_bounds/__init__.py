"""Proved lower bounds on the makespan of one unsplit pass of single operators.

shape: the pass as arrays; shared_load: devices shared out at fractional prices; quick: what is told before
every search; refute: whether a makespan can be ruled out; improve: the longest makespan ruled out.
"""
