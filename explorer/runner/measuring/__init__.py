"""What operators and links take on the hardware itself, and the profile that keeps it."""
