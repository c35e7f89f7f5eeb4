"""What kernels share: array types, typed constants, heaps, the all-reduce, the folder they are kept in, and what is
reported while one is compiled."""
