"""A bundle run again by hand, here or elsewhere: its run.sh, the variables of that, and what must be installed.

Nothing in them is a path of this machine: the folder can be carried to another one. On several hosts the same folder
is on each, and run.sh is started on each with its own NODE_RANK; the result is where NODE_RANK is 0.
"""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import shutil
import sys
from pathlib import Path
from statistics import median

from explorer.runner.bundles.outcome import Outcome
from explorer.runner.bundles.progress import BY_HAND
from explorer.words import text
from solvers.errors import printable

RANK_MODULE = "explorer.runner.rank"
PORT = 29511
"""At which ranks started by hand find one another, unless they are given another one."""
NEEDED = ("torch", "numpy", "numba", "networkx")

_SCRIPT = """\
#!/bin/sh
# Runs this plan again: {model}, {ranks} rank(s). Made {created} for the target {target}.
#
#   sh run.sh                                                    all ranks on this host
#   NNODES=2 NODE_RANK=0 MASTER_ADDR=first.host sh run.sh        half of them on each of two hosts, this being the
#   NNODES=2 NODE_RANK=1 MASTER_ADDR=first.host sh run.sh        first, and the other; result.json is on the first
#
# run.env has the variables and what they are by default; requirements.txt names what must be installed.
set -e
here=$(cd "$(dirname "$0")" && pwd)
RANKS={ranks}
. "$here/run.env"
if [ "$((NNODES * RANKS_PER_NODE))" -ne "$RANKS" ]; then
  echo "run.sh: the plan has $RANKS ranks, but NNODES=$NNODES times RANKS_PER_NODE=$RANKS_PER_NODE is not that" >&2
  exit 2
fi
if ! "$PYTHON" -c 'from importlib.util import find_spec as f; exit(not (f("torch") and f("explorer")))'; then
  echo "run.sh: $PYTHON has no placement-explorer with torch: install what requirements.txt names, or set PYTHON" >&2
  exit 2
fi
"$PYTHON" -m explorer.runner.start.contract
if [ "$NODE_RANK" -eq 0 ]; then
  "$PYTHON" -m explorer.runner.bundles.free_port "$MASTER_ADDR" "$MASTER_PORT"
fi
export OMP_NUM_THREADS
export {by_hand}=1
cd "$MODEL_DIR"
exec "$PYTHON" -m torch.distributed.run --nnodes "$NNODES" --node-rank "$NODE_RANK" \\
  --nproc-per-node "$RANKS_PER_NODE" --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \\
  -m {module} "$here"
"""
_VARIABLES = """\
# Variables of run.sh. One that is set outside comes first: MASTER_PORT=29600 sh run.sh
PYTHON=${{PYTHON:-python3}}
# Where files and modules of the model are looked for.
MODEL_DIR=${{MODEL_DIR:-.}}
NNODES=${{NNODES:-1}}
NODE_RANK=${{NODE_RANK:-0}}
RANKS_PER_NODE=${{RANKS_PER_NODE:-$((RANKS / NNODES))}}
# Where the ranks find one another: of several hosts the first one's name.
MASTER_ADDR=${{MASTER_ADDR:-127.0.0.1}}
MASTER_PORT=${{MASTER_PORT:-{port}}}
# Of each rank on a CPU.
OMP_NUM_THREADS=${{OMP_NUM_THREADS:-{threads}}}
"""


def script(model: str, target: str, ranks: int, created: str) -> str:
    """The text of run.sh."""
    return _SCRIPT.format(
        model=_comment(model) or "a model",
        target=_comment(target),
        ranks=ranks,
        created=created,
        module=RANK_MODULE,
        by_hand=BY_HAND,
    )


def variables(threads: int) -> str:
    """The text of run.env."""
    return _VARIABLES.format(port=PORT, threads=threads)


def requirements() -> str:
    """The text of requirements.txt: this program and what it runs on, in the versions that are here."""
    versions = [("placement-explorer[torch]", _version("placement-explorer"))]
    versions += [(name, _version(name)) for name in NEEDED]
    lines = [f"{name}=={version}" if version else name for name, version in versions]
    return "\n".join(["# What run.sh needs, in the versions that this bundle was made with.", *lines, ""])


def command_line(folder: Path) -> str:
    """A line for a shell that runs the bundle again on this machine, with this interpreter."""
    usual = shutil.which("python3")
    same = usual is not None and os.path.realpath(usual) == os.path.realpath(sys.executable) and not _in_environment()
    before = "" if same else f"PYTHON={shlex.quote(sys.executable)} "
    return f"{before}sh {shlex.quote(str(folder.absolute() / 'run.sh'))}"


def summary(outcome: Outcome) -> str:
    """What came of a run, in a line for whoever started it."""
    words = [outcome.status.value]
    if outcome.iterations_s:
        middle = text.seconds(median(outcome.iterations_s))
        words.append(f"{middle} an iteration (median of {len(outcome.iterations_s)})")
    if outcome.losses:
        words.append(f"loss {outcome.losses[0]:.6g}, at last {outcome.losses[-1]:.6g}")
    agreement = outcome.agreement
    if agreement is not None and agreement.holds:
        errors = f"{max(agreement.loss, agreement.gradient, agreement.parameter):.1e}"
        words.append(
            f"agrees with {agreement.true_model} (relative differences up to {errors}){agreement.undefined_words}"
        )
    if outcome.reason:
        words.append(outcome.reason)
    return f"{'; '.join(words)}; all of it in result.json"


def _in_environment() -> bool:
    """A virtual environment's interpreter is the system's, but for where it is called from."""
    return sys.prefix != sys.base_prefix


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _comment(text: str) -> str:
    """A name that cannot end the comment it stands in."""
    return printable(text)[:200]
