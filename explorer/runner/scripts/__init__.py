"""What every rank will do, on paper: from a plan to the steps of a `Script`. No torch here."""
