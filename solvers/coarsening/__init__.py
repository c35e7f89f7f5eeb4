"""Operators that share a device, contracted to super-operators, with their times and messages."""
