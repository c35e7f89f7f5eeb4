"""``python -m tests.project.pins``: renew constraints.txt: which environments need a pin, and the hashes of its files.

Versions are those that stand there; where one was changed by hand, its hashes follow. A package that is new to an
environment gets the version that is installed. Needs PyPI, and the environments of ``make test`` and ``make docs``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from urllib.request import Request, urlopen

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[2]
FILE = ROOT / "constraints.txt"
PROJECT = "placement-explorer"
HEAD = """\
# Exact versions that the tests ran with, and SHA-256 of their files: for CPython 3.11 to 3.13 on Linux and macOS.
# `.ci/install` installs those of an environment; `python -m tests.project.pins` writes this file.
"""
ENVIRONMENTS = {
    "app": (".venv", ("placement-explorer[app,torch,planners]",)),
    "test": (".venv", ("placement-explorer[all]",)),
    "coverage": (".venv", ("coverage",)),
    "notebook": (".venv-notebook", ("placement-explorer[widget]", "jupyterlab", "notebook", "marimo")),
    "docs": (".venv-docs", ("placement-explorer[docs]",)),
}
"""Of each environment of the Makefile: the folder, and what is asked for there."""
SYSTEMS = (("linux", "Linux", "x86_64"), ("linux", "Linux", "aarch64"), ("darwin", "Darwin", "arm64"))
PYTHONS = ("3.11", "3.12", "3.13")
ELSEWHERE = re.compile(r"win|musllinux|i686|ppc64|s390x|armv|riscv|loong|ios_|android|wasm|pyodide|macosx_\w*x86_64")
WITHOUT_HASHES = {"torch"}
"""Which index or folder a build of PyTorch comes from, for CPUs or a version of CUDA, is the machine's choice."""


def needed(requirements: Iterable[str]) -> dict[str, str]:
    """Versions of what is installed here that ``requirements`` need, directly or not, on any system and Python.

    What only another system needs is not here, and left out.
    """
    environments = [
        {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
        | {"sys_platform": system, "platform_system": name, "platform_machine": machine}
        for python in PYTHONS
        for system, name, machine in SYSTEMS
    ]
    left = [Requirement(text) for text in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    versions = {}
    while left:
        requirement = left.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        versions[name] = package.version
        for text in package.requires or ():
            one = Requirement(text)
            if one.marker is None or any(
                one.marker.evaluate({**environment, "extra": extra})
                for environment in environments
                for extra in extras | {""}
            ):
                left.append(one)
    versions.pop(PROJECT, None)
    return versions


def pinned() -> dict[str, str]:
    """Versions by name in constraints.txt."""
    return {name: version for name, version, _ in listed()}


def listed() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Each package of constraints.txt with its version and the environments that its section is for."""
    section: frozenset[str] = frozenset()
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# for "):
            section = frozenset(line.removeprefix("# for ").split())
        elif pin := re.match(r"([\w.-]+)==([^\s;\\]+)", line):
            yield canonicalize_name(pin[1]), pin[2], section


def hashes(name: str, version: str) -> list[str]:
    """SHA-256 of the wheels of a release that fit a supported system and Python; of its source where it has none."""
    if name in WITHOUT_HASHES:
        return []
    request = Request(f"https://pypi.org/simple/{name}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urlopen(request, timeout=60) as answer:
        files = json.load(answer)["files"]
    of_source = [file for file in files if file["filename"].endswith(f"-{version}.tar.gz")]
    of_wheels = [file for file in files if file["filename"].endswith(".whl") and _fits(file["filename"], version)]
    sums = {file["hashes"]["sha256"] for file in of_wheels or of_source}
    if not sums:
        raise SystemExit(f"PyPI has no file of {name} {version} for Linux or macOS")
    return sorted(sums)


def _fits(filename: str, version: str) -> bool:
    return filename.split("-")[1] == version and any(
        not ELSEWHERE.search(tag.platform)
        and (
            tag.interpreter == "py3"
            or (tag.abi == "abi3" and int(tag.interpreter.removeprefix("cp3") or 0) <= 13)
            or (tag.abi == tag.interpreter and tag.interpreter in {"cp311", "cp312", "cp313"})
        )
        for tag in parse_wheel_filename(filename)[3]
    )


def main() -> int:
    """Write the file."""
    versions = pinned()
    users: dict[str, set[str]] = defaultdict(set)
    for environment, (folder, requirements) in ENVIRONMENTS.items():
        command = [ROOT / folder / "bin/python", "-m", "tests.project.pins", *requirements]
        roots = {canonicalize_name(Requirement(text).name) for text in requirements} - {PROJECT}
        for name in roots & set(versions):
            users[name].add(environment)  # where it is not installed, too
        for name, version in json.loads(subprocess.check_output(command, cwd=ROOT)).items():
            users[name].add(environment)
            versions.setdefault(name, version)
    with ThreadPoolExecutor(8) as pool:
        sums = dict(zip(users, pool.map(lambda name: hashes(name, versions[name]), users), strict=True))
    sections: dict[str, list[str]] = defaultdict(list)
    for name in sorted(users):
        lines = [f"{name}=={versions[name]}", *(f"    --hash=sha256:{one}" for one in sums[name])]
        sections[" ".join(sorted(users[name]))].append(" \\\n".join(lines))
    text = "".join(f"\n# for {users}\n" + "\n".join(pins) + "\n" for users, pins in sorted(sections.items()))
    FILE.write_text(HEAD + text, encoding="utf-8")
    print(f"{len(users)} packages, {sum(map(len, sums.values()))} hashes")
    return 0


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(needed(sys.argv[1:])))
    else:
        sys.exit(main())
