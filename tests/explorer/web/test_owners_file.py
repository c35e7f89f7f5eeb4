"""What a server was started with has a name for pages, which says nothing of where it is."""

from __future__ import annotations

import os
from pathlib import Path

from explorer.jobs.requests import SolveRequest, SweepRequest
from explorer.question.settings import Settings
from explorer.web.serving.jobs_backend import owners_file


def test_pages_know_a_file_by_its_name_and_workers_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.touch()
    given = owners_file(os.path.relpath(path))
    assert (given.name, given.path) == ("model.json", str(path))
    search = SolveRequest("model.json", Settings())
    assert given.located(search).model == str(path)
    assert given.located(SweepRequest(search, "devices")).search.model == str(path)
    assert given.located(SolveRequest("gpt", Settings())).model == "gpt"


def test_a_file_that_is_called_as_a_demo_is_distinguished_from_it(tmp_path: Path) -> None:
    path = tmp_path / "gpt"
    path.touch()
    assert owners_file(str(path)).name == "./gpt"
    assert (owners_file("gpt").name, owners_file("gpt").path) == ("gpt", "gpt")
    assert owners_file("package.module:make").path == "package.module:make"
