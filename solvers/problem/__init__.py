"""The question: a graph of operators, a cluster of devices, what is asked of them, and what shares a device."""
