"""``settings``: every setting, as the reference page (docs/settings.md) or as a JSON schema."""

from __future__ import annotations

import argparse
import math
from typing import Any

from explorer.cli.terminal.command import Commands, add_command, add_json, print_json
from explorer.question.settings import GROUPS, declared
from explorer.question.written.declaring import Group, Setting
from explorer.question.written.kinds import Number

TITLE = """# Settings

Every setting, as `explorer/question/settings.py` declares it (`placement-explorer settings` prints this page, with
`--json` a JSON schema). Each is an argument of `explorer.plan` and a trait of the notebook's widget by its name, a flag
of `plan`, `compare` and `sweep`, and a key of the page's links. In Python, settings may also
come in groups: `explorer.plan(model, cluster=explorer.ClusterSettings(devices=4), memory=...)`. Sizes, rates and times
are numbers in bytes, bytes/s and seconds, or text with a unit: `16GiB`, `25GB/s`, `10us`. Ranges are those of links: a
server takes no more from strangers.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands, "settings", run, "list every setting, as docs/settings.md", "placement-explorer settings --json"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.json:
        print_json(schema())
    else:
        print(reference(), end="")
    return 0


def schema() -> dict[str, object]:
    """JSON schema of settings by name."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of Placement Explorer",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            one.name: {"description": one.help, **_nullable(one), "default": one.default} for one in declared()
        },
    }


def _nullable(one: Setting) -> dict[str, object]:
    described = one.kind.schema()
    return described if one.default is not None else {"anyOf": [described, {"type": "null"}]}


def reference() -> str:
    """The page, in Markdown."""
    return TITLE + "".join(map(_section, GROUPS))


def _section(group: type[Group]) -> str:
    first = (group.__doc__ or "").partition("\n")[0]
    rows = ["| setting | flag | link | values | default | what it is |", "|---|---|---|---|---|---|"]
    for one in declared(group):
        default = "" if one.default is None or one.default in ({}, ()) else f"`{one.kind.to_link(one.default)}`"
        cells = [f"`{one.name}`", f"`{one.flag}`", _link(one), _values(one.kind.schema())]
        meaning = one.help if one.control is None else f"{one.help}. On the page: {one.control.meaning}"
        rows.append("| " + " | ".join([*cells, default, meaning.replace("|", "\\|")]) + " |")
    return f"\n## {group.__name__}\n\n{first}\n\n" + "\n".join(rows) + "\n"


def _link(one: Setting) -> str:
    """Its key, and what a server takes for it."""
    kind = one.kind
    if not one.link or not isinstance(kind, Number) or kind.most == math.inf:
        return one.link and f"`{one.link}`"
    return f"`{one.link}`, {kind.least:g} to {kind.most:g}"


def _values(described: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "anyOf" in described:
        return ", or ".join(_values(each) for each in described["anyOf"])
    if "enum" in described:
        return ", ".join(f"`{value}`" for value in described["enum"])
    kind: str = {"string": "text", "array": "list", "object": "mapping"}.get(described["type"], described["type"])
    return kind
