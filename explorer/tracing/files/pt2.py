"""Read an exported program (``.pt2``) without torch and without running anything in it.

Differences from a live trace: which outputs are views follows from names and strides (`views`), what
autograd saves from rules (`saved_rules`), and how amounts grow with the samples from the one batch in
the file (`batching`). Parameters that no operator reads are left out: of the names of a tied one, an
export reads a single one.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from explorer.tracing.batching import doubled
from explorer.tracing.build import build
from explorer.tracing.captured import Captured
from explorer.tracing.files.archive import read_document
from explorer.tracing.files.program import Program
from explorer.tracing.files.saved_rules import with_saved
from solvers.errors import InvalidProblem, TraceError
from solvers.formats.workload import Workload

EVAL_MODE = (
    "exported in eval mode, and planned for training: dropout does nothing and batch norms use stored statistics, so"
    " what they compute and save in training is missing; export after module.train(), or plan it with --inference"
)

INFERENCE = (
    "exported in eval mode, so it is planned for inference; --training (training=True) plans its training, or export"
    " after module.train()"
)

MODES = {"aten.dropout": "train", "aten.feature_dropout": "train", "aten.batch_norm": "training",
         "aten.instance_norm": "use_input_stats"}  # fmt: skip
"""Calls that say which mode their module was in, and the argument that says it."""


def load_pt2(source: str | os.PathLike[str] | bytes, *, training: bool | None = None) -> Workload:
    """The workload in a ``.pt2`` file (a path, or its bytes).

    training adds backward and update (None: unless the program was exported in eval mode); a program with nothing to
    train gives its forward alone, with a note. Raises InvalidProblem, in one line, for anything but a well-formed
    export within the limits.
    """
    name, document = read_document(source)
    try:
        return _workload(name, document, training)
    except TraceError as error:
        raise InvalidProblem(str(error)) from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, InvalidProblem):
            raise
        # The document is a stranger's: whatever does not fit the schema ends here.
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InvalidProblem(f"{name}: the exported graph is not as expected ({what})") from error


def _workload(name: str, document: dict[str, Any], wanted: bool | None) -> Workload:
    training = wanted is not False
    captured = Program(name, document, training).captured()
    if wanted is None and is_in_eval_mode(captured):
        training, captured = False, replace(Program(name, document, False).captured(), notes=(INFERENCE,))
    trained = training and any(captured.values[output].requires_grad for output in captured.outputs)
    if training and not trained:
        captured = Program(name, document, False).captured()
        captured = replace(captured, notes=("no output depends on a trainable parameter: inference only",))
    if trained and is_in_eval_mode(captured):
        captured = replace(captured, notes=(*captured.notes, EVAL_MODE))
    small, large = doubled(captured)
    if trained:
        small, large = with_saved(small), with_saved(large)
    return build(small, large, reference=name, training=trained)


def is_in_eval_mode(captured: Captured) -> bool:
    """Whether calls that say in which mode their module was all say: not in training."""
    modes = {bool(node.constants.get(MODES[node.target])) for node in captured.nodes if node.target in MODES}
    return modes == {False}
