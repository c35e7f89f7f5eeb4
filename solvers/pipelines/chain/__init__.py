"""Chains of stages whose cuts lie on one line of operators, by dynamic programme."""
