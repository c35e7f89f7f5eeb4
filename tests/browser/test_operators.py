"""Plans at the level of operators: bars, links and the critical path, and a search as it goes on."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains

from tests.browser.page import BRIGHT
from tests.browser.test_page import devices
from tests.browser.test_stages import ROWS, VEIL

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LATTICE = "model=lattice&objective=makespan&theme=light"
ENTRY = "m:encoder.layers.0.norm"  # a module of one operator
LARGE = "model=lattice-large&objective=makespan&theme=light"
COUNT = "return window.explorer.gantt.drawn().lanes.reduce((sum, lane) => sum + lane.at.length, 0)"
PATH = "return window.explorer.gantt.drawn().over.filter((shape) => shape.name === 'path').length"
RANGE = "return window.explorer.gantt.drawn().range"
SHOWN = "return document.querySelector(arguments[0]).offsetParent !== null"
CURVE = "return document.querySelectorAll('#search-mini svg .objective').length"


def test_a_click_on_a_bar_shows_its_operator_and_a_span_that_is_named_is_revealed(fake):
    fake.at(LATTICE)
    fake.point(*fake.bar(), click=True)
    fake.until(lambda: "Input gradient" in fake.text("inspector"))
    assert "encoder.layers.0.norm.entry" in fake.text("inspector")
    assert fake.js(BRIGHT) == [ENTRY]


def test_an_operator_of_the_graph_has_its_bars_bright(fake):
    fake.at(LATTICE)
    x, y = fake.where(ENTRY)
    chain = ActionChains(fake.browser)
    chain.w3c_actions.pointer_action.move_to_location(x, y)
    chain.perform()
    fake.until(lambda: fake.js(VEIL))


def test_rows_of_links_and_the_critical_path_are_shown_on_demand_and_kept_by_the_link(fake):
    fake.at(LATTICE)
    assert fake.js(ROWS)[:5] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3", "GPU 0 → 1"]
    assert fake.js(PATH) == 0
    assert "Step " in fake.text("why")
    assert "Longest on the path" in fake.text("why")
    fake.click("#gantt-path")
    fake.until(lambda: fake.js(PATH) == 3)
    fake.click("#gantt-links")
    fake.until(lambda: fake.js(ROWS) == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"])
    fake.until(lambda: "link_rows=off" in fake.query and "path=true" in fake.query)
    shown = fake.js(PATH)
    fake.open(fake.query.removeprefix("?"))
    assert len(fake.js(ROWS)) == 4
    assert fake.js(PATH) == shown > 0
    fake.click("#gantt-links")
    fake.until(lambda: len(fake.js(ROWS)) > 4)
    assert fake.js(PATH) == 3
    fake.click("#gantt-path")
    fake.until(lambda: fake.js(PATH) == 0)


def test_one_wire_for_all_is_one_row(fake):
    fake.open(LATTICE + "&links=shared")
    assert fake.js(ROWS)[4:] == ["PCIe root"]
    assert fake.js("return document.querySelector('details.more.rare').open")


def test_zooming_in_takes_runs_apart(fake):
    fake.at(LARGE)
    assert "spans as" in fake.text("gantt-count")
    before = fake.js(COUNT)
    runs = "return window.explorer.gantt.drawn().lanes.some((lane) => lane.words.some((h) => h.includes('zoom in')))"
    assert fake.js(runs)
    canvas = fake.find(".gantt-card .canvas")
    for _ in range(11):
        canvas.send_keys("+")
    fake.until(lambda: not fake.js(runs))
    assert fake.js(COUNT) > 0
    canvas.send_keys("0")
    fake.until(lambda: fake.js(COUNT) == before)


def test_a_span_named_as_the_longest_is_shown_large(fake):
    fake.at(LARGE)
    fake.click(".heavy")
    fake.until(lambda: fake.js(RANGE)[0] > 0)
    assert fake.js(VEIL)


def test_hundreds_of_stages_are_no_picture(fake):
    fake.open(LARGE + "&graph=stages")
    assert not fake.find("#graph-kind [data-value=stages]").is_enabled()
    assert "760 stages" in fake.find("#graph-kind [data-value=stages]").get_attribute("title")
    assert fake.js(SHOWN, "#graph")
    assert not fake.js(SHOWN, "#gantt-rows")
    assert "graph=stages" in fake.query
    fake.change(lambda: fake.js("window.dash_clientside.set_props('model', {value: 'branches'})"))
    assert fake.js(SHOWN, "#stages")


def test_the_objective_curve_grows_while_the_search_runs_and_stays(fake):
    fake.browser.get(fake.address + "?" + LATTICE + "&planner=slow&time_limit=60")
    fake.until(lambda: fake.state == "solving" and "gap" in fake.text("status"))
    fake.until(lambda: fake.js(CURVE) == 1)
    fake.until(lambda: {"d1", "d2"} <= devices(fake))
    clock = "return parseFloat(document.querySelector('#status .more').textContent)"
    before = fake.js(clock)
    fake.until(lambda: fake.js(clock) > before)
    fake.until(lambda: "2 plans" in fake.text("search-mini"))
    fake.click("#cancel")
    fake.settle()
    assert "cancelled" in fake.text("status")
    assert fake.js(CURVE) == 1
    assert "2 plans" in fake.text("search-mini")
    fake.js("[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText === 'Search').click()")
    fake.until(lambda: fake.js("return document.querySelectorAll('#search-plot .objective').length") == 1)
    fake.until(lambda: "plan " in fake.text("log"))


def test_one_pass_has_no_micro_batches_to_set(fake):
    fake.open(
        LATTICE + "&micro_batches=8&execution=operator&transfers=lane&memory_model=static&cpus=1&seed=7&bandwidth=5e9"
    )
    assert not fake.js(SHOWN, "#micro-batches")
    assert fake.js(SHOWN, "#execution")
    assert "micro_batches" not in fake.query
    for part in (
        "execution=operator",
        "transfers=lane",
        "memory_model=static",
        "cpus=1",
        "seed=7",
        "bandwidth=5000000000",
    ):
        assert part in fake.query


def test_what_training_holds_is_kept_by_the_link_and_zero_goes_with_replicas(fake):
    fake.open("model=chain&devices=4&max_replicas=2&zero=2&optimizer=adafactor&precision=mixed&keep_free=2147483648")
    for part in ("zero=2", "keep_free=2147483648", "optimizer=adafactor", "precision=mixed", "max_replicas=2"):
        assert part in fake.query
    fake.change(lambda: fake.js("window.dash_clientside.set_props('replicas', {value: '1'})"))
    assert "zero" not in fake.query
    fake.change(lambda: fake.js("window.dash_clientside.set_props('keep-free', {value: 0.5})"))
    assert "keep_free=536870912" in fake.query


def test_a_second_kind_of_device_is_kept_by_the_link(fake):
    fake.open("model=chain&devices=4&device_kind=3xV100-16GB,1xH100-80GB")
    assert "device_kind=3xV100-16GB%2C1xH100-80GB" in fake.query
    assert fake.text("devices-value") == "4"
    assert fake.js(SHOWN, "#micro-batches")
    assert not fake.js(SHOWN, "#execution")
    fake.change(lambda: fake.js("window.dash_clientside.set_props('kind-two', {value: 'none'})"))
    assert "device_kind=V100-16GB" in fake.query
