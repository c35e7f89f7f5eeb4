"""What it takes to evaluate a plan, and whether both evaluators agree."""
