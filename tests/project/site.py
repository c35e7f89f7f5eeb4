"""``python -m tests.project.site FOLDER``: check a built site, link by link, and print its size.

A link within the site leads to a file, and to an element of that name; nothing is loaded from elsewhere. Links that a
reader follows to other sites are counted, not opened.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "embed": "src", "object": "data",
}  # fmt: skip
"""Elements whose address a browser loads by itself."""
NOT_LOADED = {"canonical", "search", "prev", "next", "index", "author", "help", "copyright", "genindex"}
"""Kinds of ``link`` that a browser does not load."""
LOADS = re.compile(r"url\(\s*['\"]?(https?:)?//|@import\s+['\"](https?:)?//", re.IGNORECASE)


@dataclass
class Page(HTMLParser):
    """What a page links to and loads, and the names in it."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.names |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and given.get(LOADED[tag]) and not NOT_LOADED & set(given.get("rel", "").split()):
            self.loads.append(given[LOADED[tag]])


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def faults(folder: Path) -> list[str]:
    """What is wrong with the links of a site, a line each."""
    pages = {path: read(path) for path in sorted(folder.rglob("*.html"))}
    wrong = [
        f"{path.relative_to(folder)}: {fault}"
        for path, page in pages.items()
        for address in dict.fromkeys([*page.links, *page.loads])
        if (fault := _fault(address, path, pages, loaded=address in page.loads))
    ]
    styles = [path for path in folder.rglob("*.css") if LOADS.search(path.read_text(encoding="utf-8"))]
    return wrong + [f"{path.relative_to(folder)}: loads a style or a font from elsewhere" for path in styles]


def _fault(address: str, path: Path, pages: dict[Path, Page], *, loaded: bool) -> str:
    parts = urlsplit(address)
    if parts.scheme == "data":
        return ""
    if parts.scheme or parts.netloc:
        return f"loads {address}" if loaded else ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if not target.exists():
        return f"{address} leads to no file"
    here = {one.resolve(): page for one, page in pages.items()}.get(target) if parts.fragment else None
    if here is not None and unquote(parts.fragment) not in here.names:
        return f"{address} leads to no place of that page"
    return ""


def size(folder: Path) -> str:
    """Files and bytes, by what they are."""
    kinds: dict[str, list[int]] = {}
    for path in folder.rglob("*"):
        if path.is_file():
            kinds.setdefault(path.suffix or "other", []).append(path.stat().st_size)
    rows = sorted(kinds.items(), key=lambda row: -sum(row[1]))
    total = sum(sum(sizes) for _, sizes in rows)
    message = ", ".join(f"{len(sizes)} {kind} {sum(sizes) / 1e6:.1f} MB" for kind, sizes in rows[:6])
    return f"{folder}: {total / 1e6:.1f} MB in {sum(len(sizes) for _, sizes in rows)} files ({message})"


def main(folder: Path) -> int:
    wrong = faults(folder)
    print(*wrong, sep="\n", file=sys.stderr, end="\n" if wrong else "")
    pages = [read(path) for path in folder.rglob("*.html")]
    outside = {link for page in pages for link in page.links if urlsplit(link).scheme in {"http", "https"}}
    within = sum(not urlsplit(link).scheme for page in pages for link in page.links)
    print(f"{len(pages)} pages, {within:,} links within the site, {len(outside)} to other sites, {len(wrong)} broken")
    print(size(folder))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
