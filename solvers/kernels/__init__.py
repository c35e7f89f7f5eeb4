"""What kernels share: array types, typed constants, heaps, the all-reduce, the folder they are kept in, and what is
told while one is compiled."""
