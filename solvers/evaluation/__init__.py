"""What a plan costs: lowered to tasks and messages, simulated, its memory and its load added up."""
