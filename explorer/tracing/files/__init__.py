"""Models from files: exported programs read without torch."""
