"""A pass improved by moving operators, and groups of them, between devices."""
