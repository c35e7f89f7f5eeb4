"""How `make docs` builds the pages of docs/ into build/site, with Sphinx: a site that fetches nothing when it is read.

Its source folder is docs/; this file is elsewhere (``sphinx-build -c docs/guide docs build/site``).
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
from pathlib import Path
from typing import Any

os.environ["COLUMNS"] = "100"  # of the help texts that the page of commands shows

ROOT = Path(__file__).parents[2]

project = "Placement Explorer"
author = "The Placement Explorer developers"
project_copyright = "MIT licence"
version = release = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[1]  # type: ignore[index]

extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "index"
exclude_patterns = ["guide/conf.py"]
suppress_warnings = ["config.cache", "mystnb.unknown_mime_type"]
nitpicky = False

html_theme = "furo"
html_title = f"{project} {release}"
html_favicon = "../../assets/mark.svg"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False

myst_heading_anchors = 4
"""Headings are link targets by the names that GitHub gives them."""
myst_enable_extensions = ["attrs_inline"]

nb_execution_mode = "off"
nb_merge_streams = True
"""Notebooks are shown with the outputs they are saved with; tests run them."""
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
"""Widgets are shown as the pictures saved beside them: their scripts would be fetched from elsewhere."""
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]

default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = False

PARAMETER = re.compile(r"^(\w+(?:, \w+)*(?: and \w+)?): (.+)")
RAISES = re.compile(r"(?:^|(?<=\. ))Raises (\w+(?:, \w+)*(?: or \w+)*)([^.]*)\.")


def fields_of_docstring(app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Lines such as "devices: how many" become the list of parameters that Sphinx shows.

    A line counts where what stands before the colon is a parameter of the function, or a field of the class. Markdown's
    single backticks are code; "Raises X, ..." becomes the list of exceptions.
    """
    if what not in {"function", "method", "class"}:
        return
    try:
        names = set(inspect.signature(value).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return
    names |= set(getattr(value, "__annotations__", {}))
    written: list[str] = []
    field = False
    for line in lines:
        found = PARAMETER.match(line)
        if found and names.issuperset(re.split(r", | and ", found[1])):
            if not field and written and written[-1]:
                written.append("")
            names_here = "/".join(re.split(r", | and ", found[1]))
            written.append(f":param {names_here}: {found[2]}")
            field = True
        elif line.startswith("Raises ") and (raised := RAISES.match(line)):
            reason = raised[2].strip(" ,")
            written += ["", f":raises {raised[1]}: {reason}." if reason else f":raises {raised[1]}:", ""]
            field = False
            written.append(line[raised.end() :].strip())
        elif field and line and not line.startswith(" "):
            written.append(f"    {line}")
        else:
            field = field and bool(line)
            written.append(line)
    lines[:] = written


def commands() -> str:
    """Every command's ``--help``, as Markdown with a heading each."""
    from explorer.cli import make_parser

    pages = []
    todo = [("placement-explorer", make_parser())]
    while todo:
        name, parser = todo.pop(0)
        if name != "placement-explorer":
            pages.append(f"## {name}\n\n```text\n{parser.format_help().rstrip()}\n```\n")
        else:
            pages.append(f"```text\n{parser.format_help().rstrip()}\n```\n")
        below = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        todo += [(f"{name.removeprefix('placement-explorer ')} {each}".removeprefix("placement-explorer "), sub)
                 for one in below for each, sub in one.choices.items()]  # fmt: skip
    return "\n".join(pages)


def changes() -> dict[str, str]:
    """The changelog by release, "" what is not released yet; headings are one level higher."""
    written = (ROOT / "CHANGELOG.md").read_text("utf-8")
    _, *sections = re.split(r"^## ", written, flags=re.MULTILINE)
    found = {}
    for section in sections:
        title, _, text = section.partition("\n")
        number, _, date = title.partition(" ")
        text = re.sub(r"^###", "##", text, flags=re.MULTILINE)
        found["" if number == "Unreleased" else number] = f"Released {date.strip('()')}.\n{text}" if date else text
    return found


def generated(app: object, docname: str, source: list[str]) -> None:
    """The page of commands gets their help texts, as they are now; those of changes what the changelog says."""
    if docname == "guide/command-line":
        source[0] += "\n" + commands()
    elif docname == "guide/changelog":
        source[0] += "\n## Not released yet\n" + changes()[""].replace("](docs/", "](../")
    elif docname.startswith("guide/changes/"):
        source[0] += "\n" + changes()[docname.rpartition("/")[2]].replace("](docs/", "](../../")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", fields_of_docstring)
    app.connect("source-read", generated)
