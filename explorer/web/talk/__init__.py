"""What is said between page and backend: an event in, a new state out."""
