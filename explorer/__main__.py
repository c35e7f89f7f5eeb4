"""``python -m explorer`` is the command ``placement-explorer``, which begins here: Ctrl-C while the rest is being
imported is Ctrl-C as well."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130
"""What a shell expects of a program that ended by Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit status, see `explorer.cli`."""
    try:
        from explorer.cli import main as command

        return command(argv)
    except KeyboardInterrupt:
        print("placement-explorer: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
