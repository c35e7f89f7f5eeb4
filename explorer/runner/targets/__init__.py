"""Where runs are sent: this machine, or a Ray cluster. No torch here."""
