"""What an installed wheel holds beside Python files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = """
from setuptools import Distribution
from setuptools.command.build_py import build_py
import runpy, setuptools
setuptools.setup = lambda **given: globals().update(found=given)
runpy.run_path("setup.py")
command = build_py(Distribution({key: found[key] for key in ("packages", "package_dir", "package_data")}))
command.finalize_options()
for package, _, _, names in command.data_files:
    print(*(f"{package}:{name}" for name in names), sep="\\n")
"""


def test_a_wheel_holds_types_graphs_and_answers() -> None:
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", LISTED], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    held = set(ran.stdout.split())
    assert {"explorer:py.typed", "solvers:py.typed", "demo_models:py.typed"} <= held
    assert {"explorer.question.graphs:traced/gpt.json.gz", "placement_explorer_assets:page.css"} <= held
    assert [name for name in held if name.startswith("explorer.library:answers/")]
    assets = ROOT / "assets"
    page = {path.relative_to(assets).as_posix() for path in assets.rglob("*") if path.suffix in {".js", ".css"}}
    shipped = {name.removeprefix("placement_explorer_assets:") for name in held}
    assert {name for name in page - shipped if not name.startswith("widget/")} == set()
