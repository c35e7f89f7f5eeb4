"""What is said when the library cannot help."""

from __future__ import annotations

from solvers.errors import PlacementError


class LibraryTrouble(PlacementError):
    """The library cannot be opened, read or written, or an answer in it is not what it should be. No answer is ever
    lost to it: whoever asks searches without the library, and says this one line."""
