"""Many questions, asked of several processes: of this machine, or of a cluster."""
