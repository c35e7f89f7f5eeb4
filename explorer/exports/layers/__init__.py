"""What a launcher can express of a plan: a chain of stages, and the modules that each of them owns."""
