"""What a planner sees of the world: the interface, the monitor that it answers to, and how much effort it may spend."""
