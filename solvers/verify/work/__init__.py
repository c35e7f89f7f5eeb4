"""What must run, and what must wait for what and be sent, by the problem and the plan alone."""
