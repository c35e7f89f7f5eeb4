"""Packages of the wheel, and what a wheel's build makes: the notebook widget's module. Everything else is in
pyproject.toml.

The page's css and scripts live in the top-level folder assets/ and are installed as the package
placement_explorer_assets, which a list found by pattern cannot name. Who installs a wheel needs no Node; who builds
one does. An installation that stays in its checkout (pip install --editable) builds nothing: `make widget` does.
"""

import shutil
import subprocess
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
BUILT = Path("explorer") / "notebook" / "built"


class BuildWithWidget(build_py):
    """The Python files, and the widget's module beside them."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            build_widget(Path(self.build_lib).absolute() / BUILT)


def build_widget(target: Path) -> None:
    """Raises SystemExit, in one line, without npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("building a wheel needs Node and npm (for the notebook widget); an installed one does not")
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run([npm, "ci", "--ignore-scripts", *quiet], cwd=ROOT, check=True)
    subprocess.run(["node", str(ROOT / "assets" / "widget" / "build.mjs"), str(target)], cwd=ROOT, check=True)


setup(
    packages=[*find_packages(include=["explorer*", "solvers*", "demo_models*"]), "placement_explorer_assets"],
    package_dir={"placement_explorer_assets": "assets"},
    package_data={
        "placement_explorer_assets": [
            "*.css",
            "*.js",
            "*.svg",
            "fields/*",
            "files/*.js",
            "plans/*",
            "shared/*.js",
            "time/*",
            "help/*",
            "lessons/*",
        ],
        "demo_models": ["py.typed"],
        "explorer": ["py.typed"],
        "explorer.costs": ["curves.json"],
        "solvers": ["py.typed"],
        "explorer.library": ["answers/*"],
        "explorer.question.graphs": ["traced/*"],
        "explorer.view.lessons": ["shipped/*.toml"],
    },
    cmdclass={"build_py": BuildWithWidget},
)
