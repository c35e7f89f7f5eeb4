"""What is done with plans that are there: reviewed, exported, compared, swept."""
