"""``python -m tests.project.save_examples [NAME...]``: run the examples, and keep what they print and draw."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.project.examples import EXAMPLES, with_output

LIMIT_S = 900


def main(names: list[str]) -> None:
    for name in names or list(EXAMPLES):
        example = EXAMPLES[name]
        if example.missing:
            print(f"{name}: left as it is, without {', '.join(example.missing)} on this machine")
            continue
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            output = example.run(Path(folder), LIMIT_S)
            (example.folder / "README.md").write_text(with_output(example.page, output), encoding="utf-8")
            for path in Path(folder).glob("*.svg"):
                shutil.copy(path, example.folder / path.name)
        print(f"{name}: {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
