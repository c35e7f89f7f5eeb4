"""How large the house is, room by room, beside what it was at the last release: ``make size``."""
