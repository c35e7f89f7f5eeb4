"""Messages name what is set as the command line does; whoever writes Python reads them with the arguments' names."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

PHASES = {"training": "training=True", "inference": "training=False"}
"""Flags that say what one argument is."""

_FLAG = re.compile(r"`placement-explorer [^`]*`|--(?P<flag>[a-z][a-z-]*)(?: (?P<value>[a-z0-9-]+)\b)?")


def in_python(message: str, arguments: Container[str], values: Container[str], flags: Mapping[str, str]) -> str:
    """The message with arguments in place of flags: "leave out --zero" -> "leave out zero"; "--contiguity none" ->
    "contiguity='none'". A command line in full, in backticks, stays one.

    arguments: names of those that there are; other flags stay. values: texts that arguments take. flags: by what
    stands after "--", the arguments that are not called like them, at least.
    """

    def argument(match: re.Match[str]) -> str:
        flag, value = match["flag"] or "", match["value"] or ""
        name = flags.get(flag, flag.replace("-", "_"))
        after = f" {value}" if value else ""
        if flag in PHASES:
            return PHASES[flag] + after
        if name not in arguments:
            return match[0]
        if value.isdigit():
            return f"{name}={value}"
        return f"{name}={value!r}" if value in values else name + after

    return _FLAG.sub(argument, message)
