"""Lessons: guided steps on the page, written as plain data, each ending in a question that a plan answers."""
