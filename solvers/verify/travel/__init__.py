"""What messages and all-reduces take, where they go, and the spans that they must have."""
