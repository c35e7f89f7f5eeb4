"""The examples of docs/examples: a folder each, whose README.md has commands (```sh) and what they print (```text)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "examples"
SHARED = Path(os.environ.get("SHARED", ROOT.parent / "shared"))
DOWNLOADED = {"bert24_training.json": SHARED / "workloads/msr2020/throughput/layer-bert24_training.json"}
"""Files that an example fetches, with where they are on a machine that has them already."""
TOOK = re.compile(r"(?<=, )[\d,.]+ m?s(?= \()")
"""How long a search took: the one figure that differs from run to run."""


@dataclass(frozen=True)
class Example:
    """A folder of docs/examples with a README.md."""

    folder: Path

    @property
    def page(self) -> str:
        return (self.folder / "README.md").read_text(encoding="utf-8")

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command, in order."""
        return [shlex.split(line) for line in block(self.page, "sh").replace("\\\n", " ").splitlines()]

    @property
    def output(self) -> str:
        """What the page says that the commands print."""
        return block(self.page, "text")

    @property
    def missing(self) -> list[str]:
        """Files that the example downloads, and that are not on this machine."""
        names = [words[-1].rpartition("/")[2] for words in self.commands if words[0] == "curl"]
        return [name for name in names if not DOWNLOADED[name].exists()]

    def run(self, folder: Path, limit_s: float) -> str:
        """What the commands print on standard output, run in ``folder``, which then has what they write.

        Raises CalledProcessError, TimeoutExpired.
        """
        for path in self.folder.iterdir():
            if path.suffix == ".py":
                shutil.copy(path, folder)
        return "".join(self._run(words, folder, limit_s) for words in self.commands)

    def _run(self, words: list[str], folder: Path, limit_s: float) -> str:
        if words[0] == "curl":
            name = words[-1].rpartition("/")[2]
            shutil.copy(DOWNLOADED[name], folder / name)
            return ""
        program = {"python": [], "placement-explorer": ["-m", "explorer"]}[words[0]]
        library = {"XDG_DATA_HOME": str(folder / "data")}
        done = subprocess.run(
            [sys.executable, *program, *words[1:]], cwd=folder, env={**os.environ, **library}, timeout=limit_s,
            stdout=subprocess.PIPE, text=True, check=True, encoding="utf-8",
        )  # fmt: skip
        return done.stdout


def block(page: str, language: str) -> str:
    """The text of the only block of code of a language. Raises ValueError for none, or several."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(text)


def with_output(page: str, output: str) -> str:
    """The page with another block of text."""
    return re.sub(r"^```text\n.*?^```$", lambda _: f"```text\n{output}```", page, flags=re.MULTILINE | re.DOTALL)


def numbers(output: str) -> list[str]:
    """The figures of an output in their order, but for how long searches took."""
    return re.findall(r"\d[\d,.]*", TOOK.sub("", output))


EXAMPLES = {path.parent.name: Example(path.parent) for path in sorted(FOLDER.glob("*/README.md"))}
