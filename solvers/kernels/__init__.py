"""What compiled kernels share: array types, typed constants, the folder they are kept in, and what is told while one is
compiled."""
