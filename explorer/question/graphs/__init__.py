"""Graphs of demo models that nobody has to trace again: those that ship, those that follow from them, and those that
were traced here."""
