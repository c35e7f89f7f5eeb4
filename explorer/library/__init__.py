"""Answers that were found before, kept in a file of the user's by the exact question: known ones are there at once."""
