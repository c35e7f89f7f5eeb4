"""Whether a plan may run the code of its model. No torch here: it is asked before anything is launched."""

from __future__ import annotations

from demo_models import MODELS
from explorer.question.models.code import is_callable
from explorer.question.models.example import undivided
from explorer.question.models.libraries import library_of


def why_not(reference: str, *, allow_model: bool) -> str:
    """Why the code of ``reference`` is not run, in one line; "" if it is: that of a demo model always is, that of
    "package.module:callable", "path/file.py:callable" and of an installed library ("hf:gpt2") where it is allowed.
    Other files hold no code."""
    reference = undivided(reference)
    if reference in MODELS:
        return ""
    if library_of(reference) is not None:
        if allow_model:
            return ""
        return f"{reference}: running it runs the library's code, which was not allowed; allow it if you trust it"
    if not is_callable(reference):
        return (
            f"{reference or 'the model'}: only the code of a model can be run, and this is not a reference to code;"
            " plan a demo model, package.module:callable or path/file.py:callable (another file holds the graph alone)"
        )
    if not allow_model:
        return f"{reference}: running it runs its code, which was not allowed; allow it if you trust it"
    return ""
