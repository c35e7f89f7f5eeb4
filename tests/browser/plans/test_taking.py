"""The plan on the page is taken away in every format, reviewed, and shown beside leaner ones."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

import pytest
from selenium.webdriver.common.by import By

from explorer.exports.formats import FORMATS
from solvers.formats.plan_json import read_plan

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

START = "model=gpt-small&devices=2&micro_batches=4&planner=equal&effort=quick&v=2"

BESIDE = "return [...document.querySelectorAll('#beside li')].map((row) => row.innerText)"


@pytest.fixture
def downloads(window, tmp_path):
    """A folder that the browser saves files in."""
    window.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    return tmp_path


def saved(page, folder, name):
    """The content of a file once it has arrived whole."""
    page.until(lambda: (folder / name).exists() and not list(folder.glob("*.crdownload")))
    return (folder / name).read_bytes()


def test_every_format_is_in_the_menu_and_arrives_as_a_file_of_its_name(real, downloads):
    page = real.at(START)
    page.click("#export-menu summary")
    items = page.browser.find_elements(By.CSS_SELECTOR, "#export-menu button")
    assert [item.get_attribute("data-arg") for item in items] == list(FORMATS)
    for item, one in zip(items, FORMATS.values(), strict=True):
        assert one.what in item.text
        assert item.is_enabled()
    items[0].click()
    file = read_plan(saved(page, downloads, "gpt-small.plan.json"))
    assert file.result.planner == "equal"
    assert len(file.problem.cluster.accelerators) == 2
    for name, begin in (("gantt-svg", b"<svg"), ("schedule-csv", b""), ("report-html", b"<!doctype html>")):
        page.click("#export-menu summary")
        page.click(f"#export-menu [data-arg={name}]")
        stem, _, ending = name.rpartition("-")
        assert saved(page, downloads, f"gpt-small.{stem}.{ending}").lstrip()[: len(begin)] == begin
    assert page.js("return document.getElementById('export-menu').open") is False


def test_what_a_launcher_cannot_express_is_listed_and_whole_modules_are_one_click_away(real, downloads):
    page = real.at(START.replace("gpt-small", "bert-small"))
    page.click("#export-menu summary")
    page.click("#export-menu [data-arg=megatron]")
    page.until(lambda: "is cut" in page.text("export-note"))
    text = page.text("export-note")
    assert text.startswith("megatron: the module blocks.2 is cut: 2 operators in stage 0, 10 operators in stage 1;")
    assert "--nearest" not in text
    page.click("#export-note button")
    assert b'"Ett|ttL"' in saved(page, downloads, "bert-small.megatron.sh")
    page.until(lambda: "is written" in page.text("export-note"))
    lines = page.js("return [...document.querySelectorAll('#export-note li')].map((line) => line.innerText)")
    assert lines[0].startswith("Changed: blocks.2 is whole in stage 1, which does ")
    assert lines[1].startswith("Changed: predicted iteration, snapped to module boundaries: ")
    assert lines[-1].startswith("Not included: ")
    assert page.js("return document.getElementById('export-menu').open") is True
    page.click("#export-menu summary")


def test_while_there_is_no_plan_the_menu_says_why_and_gives_nothing(real):
    page = real.at(START)
    page.change(lambda: page.js("window.explorer.setCap(2 ** 20)"))
    assert page.state == "infeasible"
    page.click("#export-menu summary")
    assert "no plan" in page.text("export-note")
    page.click("#export-menu summary")


def test_guessed_addresses_are_not_there(real_server):
    parts = urlsplit(real_server)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    for path in ("/take/guess", "/take/" + "a" * 32):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, b"Traceback" in answer.read()) == (404, False)
    connection.close()


def test_a_review_tells_every_line_its_hash_and_comes_as_one_file(real, downloads):
    page = real.open(START)
    tab = next(t for t in page.browser.find_elements(By.CSS_SELECTOR, "[role=tab]") if t.text == "Review")
    tab.click()
    page.until(lambda: page.browser.find_elements(By.CSS_SELECTOR, ".review-lines tbody tr"))
    text = page.text("review-body")
    assert "pass" in text
    assert "rules" in text
    hashed = page.js("return document.querySelector('#review-body [data-copy]').dataset.copy")
    assert len(hashed) == 64
    page.click("#review-body [data-act=export]")
    assert hashed.encode() in saved(page, downloads, "gpt-small.report.html")
    page.change(lambda: page.put("micro-batches", "8"))
    again = "return (document.querySelector('#review-body [data-copy]') || {dataset: {}}).dataset.copy"
    page.until(lambda: page.js(again) not in (None, hashed))


def test_a_plan_of_a_file_is_taken_away_and_reviewed_too(real, downloads, tmp_path_factory):
    page = real.at(START)
    page.click("#export-menu summary")
    page.click("#export-menu [data-arg=plan]")
    given = tmp_path_factory.mktemp("given") / "mine.json"
    given.write_bytes(saved(page, downloads, "gpt-small.plan.json"))
    page.find("#open-input").send_keys(str(given))
    page.until(lambda: "plan of mine.json" in page.text("status"))
    page.settle()
    (downloads / "gpt-small.plan.json").unlink()
    page.click("#export-menu summary")
    page.click("#export-menu [data-arg=plan]")
    assert json.loads(saved(page, downloads, "gpt-small.plan.json"))["plan"] == json.loads(given.read_bytes())["plan"]
    page.js("localStorage.clear()")


def test_a_leaner_plan_stands_beside_the_answer_and_never_in_its_place(real):
    page = real.open("model=gpt-small&devices=4&micro_batches=8&effort=quick&v=2")
    rows = page.js(BESIDE)
    assert len(rows) >= 2
    assert "The answer" in rows[0]
    assert "shown" in rows[0]
    assert "less on GPU" in rows[1]
    before = page.text("kpis")
    page.click('#beside [data-arg="0"]')
    page.until(lambda: page.text("kpis") != before)
    page.until(lambda: "shown" in page.js(BESIDE)[1])
    page.settle()
    page.click('#beside [data-arg="answer"]')
    page.until(lambda: "shown" in page.js(BESIDE)[0])
    tab = next(t for t in page.browser.find_elements(By.CSS_SELECTOR, "[role=tab]") if t.text == "Search")
    tab.click()
    page.until(lambda: "graph-pipeline" in page.text("found-by"))
    assert "bound" in page.text("log")
