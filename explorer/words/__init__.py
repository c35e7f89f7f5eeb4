"""How numbers, units and actions are said to people."""
