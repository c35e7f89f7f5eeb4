"""Integer and constraint programs, and the processes and libraries that solve them."""
