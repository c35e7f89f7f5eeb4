"""Reproductions of published programs and splits that no user of the product reaches: read to compare with."""
