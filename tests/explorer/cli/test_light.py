"""Starting the command costs none of the heavy packages: workers and shells import it all the time."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


def test_planning_a_file_does_not_import_torch(tmp_path_factory: pytest.TempPathFactory) -> None:
    from tests.explorer.cli.command import workload, write

    path = write(tmp_path_factory.mktemp("light"), workload())
    code = f"from explorer.cli import main; main(['plan', {str(path)!r}]); import sys; print('torch' in sys.modules)"
    assert run(code).splitlines()[-1] == "False"


def test_python_m_explorer_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "explorer", "plan", "no-such-model"], capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith("placement-explorer: error: there is no demo model or file 'no-such-model'")


def test_planning_does_not_import_pandas() -> None:
    """networkx would, for a graph that is made of a list of edges."""
    code = "from explorer.cli import main; main(['plan', 'gpt-small', '--planner', 'linear-dp'])"
    assert run(f"{code}; import sys; print('pandas' in sys.modules)").splitlines()[-1] == "False"
