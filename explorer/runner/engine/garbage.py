"""Python's collector of garbage, kept out of what is measured."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def settled_memory() -> Iterator[None]:
    """Inside, what is there now is not looked through for garbage: torch alone has hundreds of thousands of objects,
    and to look through them all, which Python does every now and then, takes as long as a step. What is made inside
    is collected as ever."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
