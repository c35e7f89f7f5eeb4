"""Controls, cards and header say what is true while a question is open, and are reached by everybody."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser

STALE = """
window.dash_clientside.set_props(arguments[0], {value: arguments[1]});
const style = (selector) => getComputedStyle(document.querySelector(selector));
return new Promise((done) => {
  const look = () => document.body.classList.contains('stale')
    ? done([+style('.gantt-card canvas').opacity, style('.kpi b').color, style('.kpi span').color])
    : requestAnimationFrame(look);
  look();
});
"""
OPACITY = "return +getComputedStyle(document.querySelector(arguments[0])).opacity"
COLOUR = "return getComputedStyle(document.querySelector(arguments[0])).color"
AFTER = "return getComputedStyle(document.querySelector(arguments[0]), '::after').content"
PLAYERS = "return ['back', 'play', 'on', 'speed'].map((name) => document.getElementById('clock-' + name).disabled)"
CONTRAST = """
const light = (colour) => {
  const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const style = getComputedStyle(document.querySelector(arguments[0]));
const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
return (a + 0.05) / (b + 0.05);
"""
NAMES = """
return [...document.querySelectorAll('button[aria-label]')]
  .filter((e) => /[a-z]/i.test(e.innerText)
    && !e.getAttribute('aria-label').toLowerCase().includes(e.innerText.trim().toLowerCase()))
  .map((e) => e.outerHTML.slice(0, 120));
"""


def test_a_change_dims_the_old_plan_at_once_until_there_is_one_of_the_new_question(fake):
    fake.at()
    schedule, figure, grey = fake.js(STALE, "devices", 6)
    assert schedule <= 0.5
    assert figure == grey
    fake.until(lambda: "devices=6" in fake.query)
    fake.settle()
    assert not fake.js("return document.body.classList.contains('stale')")
    assert fake.js(OPACITY, ".gantt-card canvas") == 1
    assert fake.js(COLOUR, ".kpi b") != fake.js(COLOUR, ".kpi span")
    fake.change(lambda: fake.put("devices", 4))


@pytest.mark.parametrize("first", [True, False])
def test_time_is_played_only_where_there_is_a_plan(fake, first):
    if first:
        fake.open("memory=536870912&devices=5&graph=stages")
        assert "No stages without a plan" in fake.js(AFTER, ".canvas.of-stages")
    else:
        fake.at()
        assert not any(fake.js(PLAYERS))
        fake.change(lambda: fake.find("#memory-field").send_keys(Keys.CONTROL, "a", Keys.NULL, "512 MiB", Keys.ENTER))
    assert fake.state == "infeasible"
    assert all(fake.js(PLAYERS))
    assert float(fake.js(OPACITY, "#clock-at")) < 1
    fake.change(lambda: fake.click("[data-act=cap]"))
    assert not any(fake.js(PLAYERS))


def test_what_nothing_fits_cannot_be_run_and_stays_dimmed(fake):
    fake.at()
    assert fake.find("#run-open").is_enabled()
    fake.change(lambda: fake.find("#memory-field").send_keys(Keys.CONTROL, "a", Keys.NULL, "512 MiB", Keys.ENTER))
    assert fake.state == "infeasible"
    assert not fake.find("#run-open").is_enabled()
    assert fake.js(OPACITY, ".gantt-card canvas") <= 0.5
    assert fake.js(COLOUR, "#why p") == fake.js(COLOUR, ".kpi b") == fake.js(COLOUR, ".kpi span")
    fake.change(lambda: fake.click("[data-act=cap]"))
    assert fake.find("#run-open").is_enabled()


def test_the_cap_is_typed_with_its_unit_and_read_out_as_a_size(fake):
    fake.open()
    value_text = "return document.querySelector('#memory [role=slider]').getAttribute('aria-valuetext')"
    assert fake.js(value_text) == "16 GiB"
    field = fake.find("#memory-field")
    fake.change(lambda: field.send_keys(Keys.CONTROL, "a", Keys.NULL, "12 GB", Keys.ENTER))
    assert "memory=12000" in fake.query
    assert fake.js(value_text) == "11.2 GiB"
    before = fake.query
    field.send_keys(Keys.CONTROL, "a", Keys.NULL, "a lot", Keys.ENTER)
    fake.until(lambda: fake.js("return document.getElementById('memory-field').getAttribute('aria-invalid')") == "true")
    assert fake.query == before


def test_a_number_is_typed_stepped_and_kept_between_its_ends(fake):
    fake.open()
    field = fake.find("#mini-batch")
    fake.change(lambda: field.send_keys("3x2", Keys.ENTER))  # letters are no part of a number
    assert "mini_batch=32" in fake.query
    fake.change(lambda: field.send_keys(Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_DOWN))
    assert "mini_batch=33" in fake.query
    fake.change(lambda: field.send_keys(Keys.CONTROL, "a", Keys.NULL, ".", Keys.ARROW_UP, "0", Keys.TAB))
    assert "mini_batch=1&" in fake.query + "&"
    assert field.get_attribute("value") == "1"
    fake.change(lambda: field.send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.BACKSPACE, Keys.TAB))
    assert "mini_batch" not in fake.query


def test_the_throughput_leads_and_tells_its_change(fake):
    fake.open("devices=2")
    fake.change(lambda: fake.slide("devices", 2))
    first = fake.find(".kpi")
    assert first.text.startswith("Throughput")
    assert first.find_element(By.CSS_SELECTOR, ".change.good").text.startswith("+")
    assert len(fake.browser.find_elements(By.CSS_SELECTOR, ".kpi .change")) >= 4


def test_the_effort_is_kept_in_the_link(fake):
    fake.open("effort=quick")
    assert "effort=quick" in fake.query
    fake.change(lambda: fake.js("document.querySelector('#effort input[value=thorough]').click()"))
    assert "effort=thorough" in fake.query


def test_the_theme_follows_the_system_until_somebody_chooses(fake):
    def prefer(scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        fake.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    prefer("light")
    fake.open()
    try:
        prefer("dark")
        fake.until(lambda: fake.theme == "dark")
        assert fake.js(CONTRAST, "#solve") >= 4.5
        prefer("light")
        fake.until(lambda: fake.theme == "light")
        assert fake.js(CONTRAST, "#solve") >= 4.5
    finally:
        prefer("")


def test_names_headings_and_what_scrolls_are_there_for_those_who_listen(fake):
    fake.at()
    assert fake.js(NAMES) == []
    assert fake.find("h1").text == "Placement Explorer"
    fake.js("[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText === 'Devices').click()")
    assert fake.find("#device-table").get_attribute("tabindex") == "0"
    fake.js("[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText === 'Memory').click()")


def test_the_header_is_whole_on_a_telephone(fake):
    fake.at()
    cut = """
      return [...document.querySelectorAll('.header > *')]
        .filter((e) => e.offsetWidth)
        .filter((e) => e.getBoundingClientRect().right > innerWidth || e.getBoundingClientRect().left < 0)
        .map((e) => e.outerHTML.slice(0, 80))"""
    with fake.sized(390, 844):
        assert fake.js(cut) == []
        assert fake.js("return document.documentElement.scrollWidth") <= 390


def test_an_operator_is_selected_by_name_from_the_keyboard(fake):
    fake.at()
    fake.find("body").send_keys("/")
    field = fake.find(".find input")
    field.send_keys("3 MLP")
    fake.until(lambda: fake.browser.find_elements(By.CSS_SELECTOR, ".find li"))
    assert fake.find(".find li").text.startswith("blocks.3.mlp")
    field.send_keys(Keys.ENTER)
    fake.until(lambda: "blocks.3.mlp" in fake.text("inspector"))
    fake.find("body").send_keys("/")
    fake.find(".find input").send_keys(Keys.CONTROL, "a", Keys.NULL, "nothing has this")
    fake.until(lambda: "No operator" in fake.find(".find p").text)
    fake.find(".find input").send_keys(Keys.ESCAPE)
    fake.until(lambda: not fake.find(".find").is_displayed())


LISTED = "return [...document.querySelectorAll('#chooser-list [role=option] b')].map((e) => e.textContent)"


def test_a_long_list_is_searched_by_every_word_of_name_promise_and_paper(real):
    page = real.at("devices=2")
    page.find("#planner").send_keys("e")
    field = page.browser.switch_to.active_element
    assert field.get_attribute("role") == "combobox"
    field.send_keys("xact tarnawski")
    listed = page.js(LISTED)
    assert "downset-dp" in listed
    assert "pipedream" not in listed
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("pipe")
    listed = page.js(LISTED)
    assert listed[0].startswith("pipe")
    assert "graph-pipeline" in listed
    field.send_keys(Keys.ARROW_DOWN)
    chosen = page.js("return document.querySelector('#chooser-list [aria-selected=true]').textContent")
    assert chosen.startswith(listed[1])
    field.send_keys(Keys.ARROW_UP)
    page.change(lambda: field.send_keys(Keys.ENTER))
    assert f"planner={listed[0]}" in page.query
    assert page.js("return document.activeElement.id") == "planner"
    page.change(lambda: page.put("planner", "auto"))


def test_a_long_list_is_unfolded_by_pressing_it_and_left_without_a_choice(real):
    page = real.at("devices=2")
    before = page.query
    panel = "return document.querySelector('.chooser') !== null && !document.querySelector('.chooser').hidden"
    page.click("#model")
    assert page.js(panel)
    page.browser.switch_to.active_element.send_keys("nothing of that name")
    assert page.js(LISTED) == []
    page.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not page.js(panel)
    assert page.js("return document.activeElement.id") == "model"
    assert page.query == before
    page.change(lambda: page.find("#pipeline").send_keys("g"))  # a short one is the browser's own
    assert not page.js(panel)
    assert "pipeline=gpipe" in page.query
