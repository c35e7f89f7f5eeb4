"""What every rank will do: from a plan to the steps of a `Script`. No torch here."""
