"""The documentation: its links lead somewhere, and as a site it fetches nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.project.site import faults, size

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-docs" / "bin" / "python"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")])
MOST_BYTES = 12_000_000
"""Of the site."""
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    names: list[str] = []
    for heading in HEADING.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        names.append(f"{name}-{names.count(name)}" if name in names else name)
    return set(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        address, _, name = link.partition("#")
        target = (page.parent / address).resolve() if address else page
        if re.match(r"\w+:", link):
            continue
        if not target.exists() or (name and target.suffix == ".md" and name not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_site() -> None:
    listed = set()
    for page in (ROOT / "docs").rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for name in re.findall(r"^[\w/.*-]+$", block, re.MULTILINE):
                named = page.parent.glob(f"{name}.md") if "*" in name else [page.parent / name]
                listed |= {path.resolve() for path in named}
    pages = [page for page in (ROOT / "docs").rglob("*") if page.suffix in {".md", ".ipynb"}]
    missing = {page for page in pages if not {page.resolve(), page.with_suffix("").resolve()} & listed}
    assert missing == {ROOT / "docs" / "index.md"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_has_no_broken_link_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("Sphinx is not installed: `make docs` installs it into .venv-docs")
    command = ["-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-b", "html", "-c", "docs/guide", "docs"]
    built = subprocess.run(
        [PYTHON, *command, "-d", tmp_path / "doctrees", tmp_path / "site"], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    assert faults(tmp_path / "site") == []
    assert sum(path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file()) < MOST_BYTES
    assert (tmp_path / "site" / "searchindex.js").exists(), "what the search reads from a folder, without a server"
    print(size(tmp_path / "site"))


def test_a_site_with_faults_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><a href="https://x.org">4</a>'
        '<script src="https://cdn.org/x.js"></script><img src="data:image/png;base64,AA==">'
        '<link rel="index" href="b.html">'
    )
    (tmp_path / "b.html").write_text('<p id="there">')
    (tmp_path / "s.css").write_text("@font-face { src: url(https://fonts.example/x.woff) }")
    assert faults(tmp_path) == [
        "a.html: b.html#gone leads to no place of that page",
        "a.html: c.html leads to no file",
        "a.html: loads https://cdn.org/x.js",
        "s.css: loads a style or a font from elsewhere",
    ]
