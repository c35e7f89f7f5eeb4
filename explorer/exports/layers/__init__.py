"""What a launcher can be told of a plan: a chain of stages, and the modules that each of them owns."""
