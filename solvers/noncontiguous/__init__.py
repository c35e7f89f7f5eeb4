"""Max-load with any sets of operators on a device: moves between sets, and the published programs."""
