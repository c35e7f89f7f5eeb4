"""Files on the page, as a person opens them: used in place, or refused in one line that changes nothing."""

from __future__ import annotations

import http.client
import json
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from demo_models import MODELS
from explorer.costs.times.library_json import write_library
from explorer.costs.times.store import save
from explorer.jobs.requests import UPLOAD_BYTES
from explorer.tracing import load_pt2
from explorer.web.state.shelf import MAX_FILES, PREFIX, Shelf, safe_name
from solvers.formats.graph_json import write_graph
from solvers.formats.plan_json import write_plan
from solvers.problem.problem import ComputeTable
from tests.browser.conftest import serve, watched
from tests.browser.test_safety import connect
from tests.explorer.costs.times.libraries import library_of_linear
from tests.explorer.tracing.files.pt2_bytes import with_weights
from tests.explorer.tracing.test_pt2 import exported
from tests.explorer.view.small import GIB, chain_problem, chain_workload, even_plan

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

START = "model=gpt-small&devices=2&micro_batches=4&effort=quick&time_limit=3&v=2"
BERT = START.replace("gpt", "bert")
DROP = """
const file = new File([arguments[1]], arguments[0]);
const transfer = new DataTransfer();
transfer.items.add(file);
for (const kind of ['dragenter', 'dragover', 'drop'])
  document.body.dispatchEvent(new DragEvent(kind, {dataTransfer: transfer, bubbles: true, cancelable: true}));
"""


def post(address, body, length=None, **headers):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    try:
        sent = {"content-length": str(len(body) if length is None else length), **headers}
        connection.request("POST", "/open", body, sent)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or "null")
    finally:
        connection.close()


def test_a_plan_a_model_a_placement_and_a_cluster_are_opened(real, tmp_path):
    page = real.at(START)
    problem = chain_problem(4)
    files = {
        "plan.json": write_plan(problem, even_plan(problem)),
        "chain.json": write_graph(chain_workload()),
        "place.json": '{"blocks": 0}',
        "two.json": json.dumps(
            {
                "devices": [{"name": f"g{i}", "kind": "A100-40GB"} for i in range(2)],
                "links": [{"src": i, "dst": 1 - i, "bandwidth_bytes_per_s": 1e10, "latency_s": 1e-6} for i in range(2)],
            }
        ),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    chosen = page.find("#open-input")
    chosen.send_keys(str(tmp_path / "plan.json"))
    page.until(lambda: "plan of plan.json" in page.text("status"))
    assert "192 operators" in page.text("model-chip")
    assert not page.find("#run-open").is_enabled()
    page.change(lambda: chosen.send_keys(str(tmp_path / "chain.json")))
    assert "model=file-" in page.query
    assert page.state in ("optimal", "feasible")
    page.change(lambda: chosen.send_keys(str(tmp_path / "two.json")))
    assert "cluster=file-" in page.query
    assert "two.json" in page.text("opened-files")
    chosen.send_keys(str(tmp_path / "place.json"))
    page.until(lambda: "placement of place.json" in page.text("status"))
    assert len({name[:5] for name, _ in page.bars}) == 1
    page.click("#open-file")
    page.until(lambda: "chain.json" in page.text("open-recent"))
    page.click("[data-close=open]")
    page.js("localStorage.clear()")


@pytest.mark.slow
def test_the_rail_says_what_the_devices_of_a_file_and_of_a_machine_have(real, tmp_path):
    page = real.at(START)
    problem = chain_problem(3, memory_bytes=8 * GIB)
    stated = replace(chain_workload(), compute=problem.compute)
    (tmp_path / "capped.json").write_text(write_graph(replace(stated, cluster=problem.cluster)))
    samples, seconds = stated.compute.samples, stated.compute.seconds["toy"]
    free = replace(stated, compute=ComputeTable(samples, {"gpu": seconds}))
    (tmp_path / "free.json").write_text(write_graph(free))
    chosen = page.find("#open-input")

    def rail():
        return page.text("devices-value"), page.find("#memory-field").get_attribute("value")

    page.change(lambda: chosen.send_keys(str(tmp_path / "capped.json")))
    assert rail() == ("3", "8 GiB")
    page.change(lambda: chosen.send_keys(str(tmp_path / "free.json")))
    assert rail() == ("4", "no cap")
    page.change(lambda: page.put("model", "gpt-small"))
    assert rail() == ("4", "74.5 GiB")
    page.change(lambda: Select(page.find("#named-cluster")).select_by_value("2xv100-node"))
    assert rail() == ("8", "14.9 GiB")
    page.change(lambda: Select(page.find("#named-cluster")).select_by_value("8xdgx-h100"))
    page.js("document.getElementById('cancel').click()")
    assert rail() == ("64", "74.5 GiB")
    assert page.find("#devices input").get_attribute("max") == "64"
    assert page.find("#devices-value").is_displayed()
    page.js("localStorage.clear()")


def test_operator_times_take_the_place_of_estimates_until_their_chip_is_closed(real, tmp_path):
    page = real.at(BERT)
    file = tmp_path / "lab.json"
    file.write_text(write_library(library_of_linear(hardware="NVIDIA A100-SXM4-80GB")))
    page.change(lambda: page.find("#open-input").send_keys(str(file)))
    assert "times_file=file-" in page.query
    assert "Times: lab.json" in page.text("opened-files")
    assert "of the time measured" in page.text("model-chip")
    page.change(lambda: page.find("#opened-files .opened button").click())
    assert "times_file" not in page.query
    assert "measured" not in page.text("model-chip")
    page.js("localStorage.clear()")


@pytest.mark.slow
def test_what_is_saved_on_the_server_is_chosen_by_name(window, tmp_path, monkeypatch, request):
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path))
    save("lab", None, library_of_linear(hardware="NVIDIA A100-SXM4-80GB"))
    for address in serve("tests.browser.fakes.serve_real", "bert-small", str(tmp_path)):
        for page in watched(window, address, request.session):
            page.open(BERT)
            saved = lambda: Select(page.find("#saved-costs"))  # noqa: B023, E731
            page.change(lambda: saved().select_by_value("times_file/lab"))  # noqa: B023
            assert "times_file=lab" in page.query
            assert "of the time measured" in page.text("model-chip")
            page.open(page.query.lstrip("?"))
            assert saved().first_selected_option.text == "lab"
            page.change(lambda: saved().select_by_value(""))  # noqa: B023
            assert "times_file" not in page.query
            assert not page.text("opened-files")


def test_what_is_refused_is_reported_in_a_line_and_changes_nothing(real):
    page = real.at(START)
    before, chip, bars = page.query, page.text("model-chip"), page.bars
    for i, content in enumerate(("[" * 50_000, '{"format": "placement-explorer/graph"', "\x80\x04pickle", "")):
        page.js(DROP, f"<b onclick=alert(1)>{i}.json", content)
        page.until(lambda: f"_{i}.json" in page.text("banner"))  # noqa: B023
        page.settle()
        assert "nothing was changed" in page.text("banner")
        assert (page.query, page.text("model-chip"), page.bars) == (before, chip, bars)
        assert not page.browser.find_elements(By.CSS_SELECTOR, "#banner [onclick]")
        assert page.find("#run-open").is_enabled()
    page.change(lambda: page.put("micro-batches", "8"))
    assert page.state in ("optimal", "feasible")
    count = page.js("return window.__pe_timing.length")
    page.change(lambda: page.put("micro-batches", "4"))
    assert "cached" in page.text("status")
    assert page.js("return window.__pe_timing.length") == count + 1


def test_weights_of_a_pt2_stay_where_they_are_and_what_is_too_large_all_the_same_is_refused(real, tmp_path):
    page = real.at(START)
    large = with_weights(tmp_path / "large.pt2", exported(*MODELS["gpt-small"].build()), 5 * 2**30)
    page.js(
        "window.said = []; const status = window.explorer.status;"
        "window.explorer.status = (...words) => { said.push(words.slice(1, 3).join(': ')); status(...words); };"
    )
    chosen = page.find("#open-input")
    page.change(lambda: chosen.send_keys(str(large)))
    assert "model=file-" in page.query
    assert f"{len(load_pt2(large).graph)} operators" in page.text("model-chip")
    text = page.js("return window.said")
    assert "sending large.pt2: 5 GiB of weights left out" in text
    assert "reading large.pt2: 5 GiB of weights left out" in text
    before = page.query
    for name, advice in (("none.pt2", 'torch.device("meta")'), ("none.onnx", "placement-explorer app FILE")):
        with (tmp_path / name).open("wb") as file:
            file.truncate(UPLOAD_BYTES + 2**20)
        chosen.send_keys(str(tmp_path / name))
        page.until(lambda: f"{name}: 129 MiB; at most 128 MiB" in page.text("banner"))  # noqa: B023
        assert advice in page.text("banner")
        page.settle()
        assert page.query == before
    page.js("localStorage.clear()")


def test_only_a_page_with_its_token_hands_files_in_and_only_so_large(real_server):
    origin = real_server.rstrip("/")
    assert post(real_server, b"{}")[0] == 403
    socket = connect(real_server)
    try:
        token = json.loads(socket.recv())["token"]
        headers = {"x-page-token": token, "x-file-name": "a.json"}
        assert post(real_server, b"{}", **headers)[0] == 403
        assert post(real_server, b"{}", **headers, origin="http://evil.example")[0] == 403
        status, shown = post(real_server, b"{}", UPLOAD_BYTES + 1, **headers, origin=origin)
        assert (status, "128 MiB" in shown["refused"]) == (413, True)
        assert post(real_server, b"{}", **headers, origin=origin)[0] == 200
    finally:
        socket.close()


def test_names_are_made_safe_and_only_so_many_files_are_kept():
    assert safe_name("../../etc/passwd") == "passwd"
    assert safe_name("C:\\temp\\<b>.json") == "_b_.json"
    assert safe_name("\u202e..") == "_"
    assert safe_name("") == "file"
    shelf = Shelf()
    try:
        for i in range(MAX_FILES + 3):
            part = shelf.part()
            part.write_text(str(i))
            stored = shelf.store(part, f"{i}.json")
        assert len(shelf.names()) == MAX_FILES
        assert stored.identifier.startswith(PREFIX)
        assert shelf.get(stored.identifier) == stored
        assert shelf.get("file-0") is None
    finally:
        shelf.close()
    assert not shelf.folder.exists()
