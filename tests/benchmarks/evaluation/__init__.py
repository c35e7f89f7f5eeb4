"""What it takes to tell what a plan costs, and whether both ways of telling agree."""
