"""Constants of the plain types.

A kernel that is called with a literal, as in ``push(heap, 0, task)``, is compiled for that literal alone, and
again for a variable. These are of the type that variables have.
"""

from __future__ import annotations

from typing import cast

import numpy as np

NO, YES = cast(bool, np.bool_(False)), cast(bool, np.bool_(True))
ZERO, ONE, TWO, BELOW = (cast(int, np.int64(value)) for value in (0, 1, 2, -1))
