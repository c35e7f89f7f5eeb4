"""A schedule at one instant: what runs, what is in flight, what memory holds, and what an idle device waits for."""
