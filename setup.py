"""Packages of the wheel; everything else is in pyproject.toml.

The page's css and scripts live in the top-level folder assets/ and are installed as the package
placement_explorer_assets, which a list found by pattern cannot name.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["explorer*", "solvers*", "demo_models*"]), "placement_explorer_assets"],
    package_dir={"placement_explorer_assets": "assets"},
    package_data={
        "placement_explorer_assets": ["*.css", "*.js", "*.svg", "plans/*.js"],
        "explorer.jobs": ["graphs/*.json.gz"],
    },
)
