"""What is asked of a run, what comes back, and the folder that keeps both. No torch here."""
