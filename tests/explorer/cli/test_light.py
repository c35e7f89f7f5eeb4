"""Starting the command costs none of the heavy packages: workers and shells import it all the time."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.question.graphs.demos import FOLDER
from solvers.planners.registry import HOMES

HEAVY = ("torch", "dash", "plotly", "numba", "networkx", "fastapi")


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "code",
    [
        "import explorer, explorer.cli",
        "import explorer.__main__",
        "from explorer.cli import main; main(['models'])",
        "from explorer.cli import main; main(['devices'])",
        "from explorer.cli import main; main(['targets'])",
        "from explorer.cli import main; main(['runs'])",
        "import explorer.cli.listings.plans, explorer.library.browsing, explorer.library.place",
        "import explorer.question.problems, explorer.question.loading, explorer.question.settings",
    ],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    loaded = run(f"{code}\nimport sys; print('LOADED', *[m for m in {HEAVY!r} if m in sys.modules])").splitlines()[-1]
    assert loaded.strip() == "LOADED"


def test_planning_a_file_does_not_import_torch_or_pandas(tmp_path: Path) -> None:
    """networkx would import pandas, for a graph that is made of a list of edges."""
    path = tmp_path / "gpt-small.json"
    path.write_bytes(gzip.decompress((FOLDER / "gpt-small.json.gz").read_bytes()))
    code = f"from explorer.cli import main; main(['plan', {str(path)!r}, '--planner', 'linear-dp']); import sys"
    output = run(f"{code}; print('networkx' in sys.modules, 'torch' in sys.modules, 'pandas' in sys.modules)")
    assert output.splitlines()[-1] == "True False False"


@pytest.mark.parametrize("how", ["['gpt-small']", "['gpt-small', '--inference', '--dtype', 'bf16']"])
def test_planning_a_demo_that_ships_does_not_import_torch(how: str) -> None:
    code = f"from explorer.cli import main; main(['plan', '--planner', 'equal', *{how}]); import sys"
    assert run(f"{code}; print('torch' in sys.modules)").splitlines()[-1] == "False"


@pytest.mark.slow
def test_nor_does_one_that_was_traced_before(tmp_path: Path) -> None:
    arguments = [
        "plan",
        "candle_uno-small,batch=6",
        "--planner",
        "equal",
        "--library",
        str(tmp_path / "answers.sqlite"),
    ]
    code = f"from explorer.cli import main; main({arguments!r}); import sys; print('torch' in sys.modules)"
    assert [run(code).splitlines()[-1] for _ in range(2)] == ["True", "False"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.graphs", "answers.sqlite"]
    without = code.replace("'--library', " + repr(arguments[-1]), "'--no-library'")
    assert run(without).splitlines()[-1] == "True"


def test_an_answer_that_is_known_needs_no_planner_bound_or_compiler(tmp_path: Path) -> None:
    arguments = ["plan", "gpt-small", "--effort", "quick", "--library", str(tmp_path / "answers.sqlite")]
    code = f"from explorer.cli import main; main({arguments!r}); import sys; print(*sys.modules)"
    assert "solvers.planners.portfolio" in run(code).splitlines()[-1].split()
    lines = run(code).splitlines()
    assert any(line.startswith("note       cached result of") for line in lines)
    loaded = set(lines[-1].split())
    searching = {home.partition(":")[0] for home in HOMES.values()} - {"solvers.planners.auto"}
    searching |= {"solvers.planners.solve", "solvers.planners.portfolio", "solvers.bounds"}
    assert loaded & ({*HEAVY, "scipy", "pulp", "highspy", "ortools", "pymetis"} | searching) == set()


def test_python_m_explorer_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "explorer", "plan", "no-such-model"], capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith("placement-explorer: error: there is no demo model or file 'no-such-model'")
