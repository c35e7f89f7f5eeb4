"""Joint placement and scheduling: one unsplit pass, operator by operator (Pesto, Middleware 2021)."""
