"""Rows of different lengths, alike or shared, as flat arrays."""
