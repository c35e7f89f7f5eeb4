"""One file for every launcher: its grammar with its source, and what it cannot express."""
