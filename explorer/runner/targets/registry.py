"""Where plans are run: the targets that the owner of this machine declared, and ``local``, which is always there."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from explorer.question.written.closest import closest
from explorer.runner.bundles.reproduce import RANK_MODULE
from explorer.runner.bundles.request import RunRequest
from explorer.runner.targets.target import Target
from explorer.runner.targets.target_file import LOCAL, LocalSetup, RaySetup, TargetSetup, default_file, read_target_file
from solvers.errors import InvalidProblem


@dataclass(frozen=True, slots=True)
class Targets:
    """The declared targets by name, ``local`` first."""

    setups: Mapping[str, TargetSetup]
    environ: Mapping[str, str]
    where: str = ""
    """The file they are declared in, or ""."""

    def setup(self, name: str) -> TargetSetup:
        """Raises InvalidProblem for a name that is not declared."""
        if name not in self.setups:
            declared = f"declared in {self.where}" if self.where else f"declare others in {default_file(self.environ)}"
            known = ", ".join(self.setups)
            raise InvalidProblem(f"no target {name!r}{closest(name, self.setups)}; there are: {known} ({declared})")
        return self.setups[name]

    def get(self, name: str, module: str = RANK_MODULE) -> Target:
        """The target itself. module: what its ranks run. Raises InvalidProblem, also where its token is not to
        be had, and for ``local`` without PyTorch."""
        setup = self.setup(name)
        if isinstance(setup, LocalSetup):
            if importlib.util.find_spec("torch") is None:
                raise InvalidProblem("running a plan here needs PyTorch; pip install 'placement-explorer[torch]'")
            from explorer.runner.targets.local import LocalTarget

            return LocalTarget(setup.name, max_ranks=setup.max_ranks, module=module)
        return _ray(setup, self.environ, module)

    def defaults(self, name: str) -> RunRequest:
        """What is asked of a run there unless somebody says otherwise."""
        setup = self.setup(name)
        return RunRequest(
            threads=setup.threads,
            pin=setup.pin,
            backend=setup.backend,
            time_limit_s=setup.timeout_s,
        )


def load_targets(path: str | None = None, environ: Mapping[str, str] = os.environ) -> Targets:
    """The targets of a file (``path``, else $PLACEMENT_EXPLORER_TARGETS, else targets.toml in the person's
    configuration, which need not be there). Raises InvalidProblem that names file and key."""
    given = path or environ.get("PLACEMENT_EXPLORER_TARGETS") or ""
    file = Path(given) if given else default_file(environ)
    if not given and not file.is_file():
        return Targets({LOCAL: LocalSetup(LOCAL)}, environ)
    declared = read_target_file(file)
    local = declared.pop(LOCAL, LocalSetup(LOCAL))
    return Targets({LOCAL: local, **declared}, environ, str(file))


def _ray(setup: RaySetup, environ: Mapping[str, str], module: str) -> Target:
    from explorer.runner.targets.ray import RayTarget

    return RayTarget(setup, setup.token(environ), module=module)
