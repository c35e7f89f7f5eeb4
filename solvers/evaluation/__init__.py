"""What a plan costs: lowered to tasks as columns, run by one event loop, its memory summed by another."""
