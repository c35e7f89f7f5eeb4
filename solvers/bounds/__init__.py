"""What no plan can beat, and proofs that none exists."""
