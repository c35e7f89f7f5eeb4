"""Files of every format that the page takes, opened and planned as a person would."""

from __future__ import annotations

import json

import pytest

from explorer.costs.profile_json import write_profile
from explorer.question.graphs.demos import traced_before
from tests.browser.test_open import START
from tests.explorer.costs.profiles import profile_of
from tests.solvers.formats import test_pipedream, test_piper
from tests.solvers.msr_instances import random_file

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def exported(path):
    """A small module as torch.export keeps it."""

    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

        def forward(self, x):
            return self.second(torch.relu(self.first(x))).sum()

    torch.export.save(torch.export.export(Small(), (torch.zeros(3, 8),)), path)


WRITERS = {
    "small.pt2": exported,
    "msr.json": lambda path: path.write_text(json.dumps(random_file(3, cpus=1))),
    "profile.txt": lambda path: path.write_text(test_pipedream.text()),
    "piper.json": lambda path: path.write_text(json.dumps(test_piper.SMALL)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_opened_and_planned(real, tmp_path, name):
    page = real.at(START)
    WRITERS[name](tmp_path / name)
    page.change(lambda: page.find("#open-input").send_keys(str(tmp_path / name)))
    assert "model=file-" in page.query
    assert name in page.text("model-chip")
    assert page.state in ("optimal", "feasible"), page.text("status")
    assert {paint for paint in page.boxes.values() if paint}
    assert page.bars


def test_a_profile_takes_the_place_of_estimates_until_it_is_let_go(real, tmp_path):
    page = real.at(START)
    measured = tmp_path / "measured.json"
    measured.write_text(write_profile(profile_of(traced_before("gpt-small", True, None).graph)))
    page.change(lambda: page.find("#open-input").send_keys(str(measured)))
    assert "profile=file-" in page.query
    assert "measured.json" in page.text("opened-files")
    assert "estimated" not in page.text("model-chip")
    page.change(lambda: page.click("#opened-files .tool"))
    assert "profile=" not in page.query
    assert "estimated" in page.text("model-chip")
