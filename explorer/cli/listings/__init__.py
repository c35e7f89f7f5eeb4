"""Commands that list: what there is to choose from, and what was found before."""
