"""How much of other people's files is read: stated on the page, kept by the process that reads."""

from __future__ import annotations

UPLOAD_BYTES = 128 * 2**20
"""Of one file. The largest workload of the field is 9 MB; exported on the meta device a model has no weights."""
MAX_OPERATORS = 50_000
"""Of a graph that a page can show and plan without making everybody wait."""
READ_BYTES = 4 * 2**30
"""Memory of the process that reads."""
READ_S = 60.0
"""A file that takes longer is given up."""
