"""What three papers measured, measured again: a benchmark a figure, and the plots of docs/papers."""
