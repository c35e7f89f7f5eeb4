"""A plan in other formats: files that other programs, papers and colleagues read."""
