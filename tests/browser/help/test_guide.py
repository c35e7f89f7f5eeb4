"""Words where they are needed: beside controls and figures, and all of them with the keys in one dialog."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from explorer.web.contract.terms import TERMS
from explorer.web.layout.guide import KEYS
from explorer.words.glossary import PARTS
from solvers.planners.purposes import PURPOSES
from solvers.planners.registry import PLANNERS

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

START = "model=gpt-small&devices=2&micro_batches=4&effort=quick&v=2"
ROOT = Path(__file__).parents[3]
UNTOLD = """
const controls = document.querySelectorAll('.rail.left :is(input, select, textarea, [role=slider], [role=radiogroup])');
return [...controls].filter((c) => c.type !== 'hidden' && !c.closest('[data-term], .fleet'))
  .map((c) => c.id || c.name || c.outerHTML.slice(0, 80));
"""
TERMS_USED = "return [...new Set([...document.querySelectorAll('[data-term]')].map((e) => e.dataset.term))]"
GROUPS = "return [...document.querySelectorAll('#planner optgroup')].map((e) => e.label)"
TIP = "const tip = document.querySelector('.tip'); return tip && !tip.hidden ? tip.textContent : ''"


def test_every_planner_is_for_one_thing():
    named = [name for names in PURPOSES.values() for name in names]
    assert sorted(named) == sorted(PLANNERS)


def test_every_word_is_explained_in_a_sentence_or_two():
    for term in TERMS.values():
        assert term.part in PARTS
        assert 20 < len(term.meaning) < 260, term.word
        assert term.meaning.endswith(".")
        assert len(re.findall(r"[.:] [A-Z]", term.meaning)) <= 4, term.word
    assert len({term.word for term in TERMS.values()}) == len(TERMS)


def test_every_key_of_the_help_is_one_that_the_page_hears():
    scripts = "".join(path.read_text() for path in (ROOT / "assets").rglob("*.js"))
    for key in ("?", "/", "p", "t", "x", "0", "w", ",", ".", " ", "Escape", "Enter"):
        assert re.search(rf'"{re.escape(key)}"|\b{re.escape(key)}: ', scripts), key
    assert 'toLowerCase() === "z"' in scripts
    assert len(KEYS) >= 8


def test_every_control_and_figure_says_what_it_means(real):
    page = real.at(START)
    assert page.js(UNTOLD) == ["model"]  # whose names are models
    used = set(page.js(TERMS_USED))
    assert used <= TERMS.keys()
    assert {"throughput", "iteration", "bubble", "peak", "bound"} <= used


def test_a_word_is_shown_where_the_pointer_rests_and_leaves_with_it(real):
    page = real.at(START)
    ActionChains(page.browser).move_to_element(page.find(".kpi:nth-child(3)")).perform()
    text = page.until(lambda: page.js(TIP))
    assert text == TERMS["bubble"].word + TERMS["bubble"].meaning
    page.js("document.getElementById('effort').scrollIntoView()")
    ActionChains(page.browser).move_to_element(page.find("#effort")).pause(0.2).move_by_offset(3, 0).perform()
    page.until(lambda: page.js(TIP).startswith("Effort"))
    inside = page.js(
        "const b = document.querySelector('.tip').getBoundingClientRect();"
        "return b.left >= 0 && b.top >= 0 && b.right <= innerWidth && b.bottom <= innerHeight"
    )
    assert inside
    ActionChains(page.browser).move_to_element(page.find(".logo")).perform()
    page.until(lambda: not page.js(TIP))


def test_the_keyboard_gets_them_too_and_readers_of_the_screen(real):
    page = real.at(START)
    page.find("#seed").click()
    ActionChains(page.browser).send_keys(Keys.TAB).perform()
    page.find("#time-limit").click()
    page.js("document.activeElement.blur()")
    ActionChains(page.browser).pause(0.7).send_keys(Keys.TAB).perform()
    described = page.js("return document.activeElement.getAttribute('aria-describedby')")
    term = page.js("return document.activeElement.closest('[data-term]').dataset.term")
    assert described == f"word-{term}"
    assert page.js("return document.getElementById(arguments[0]).textContent", described) == TERMS[term].meaning
    page.until(lambda: page.js(TIP).startswith(TERMS[term].word))
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()
    page.until(lambda: not page.js(TIP))


def test_the_help_opens_with_its_key_and_finds_a_word(real):
    page = real.at(START)
    page.find(".gantt-card .canvas").send_keys("?")
    dialog = page.find("#guide")
    page.until(dialog.is_displayed)
    assert all(key in dialog.text for key, _ in KEYS)
    find = dialog.find_element(By.CSS_SELECTOR, "input[type=search]")
    find.send_keys("downset")
    shown = page.until(lambda: [e.text for e in dialog.find_elements(By.CSS_SELECTOR, ".word dt") if e.is_displayed()])
    assert "Downset" in shown
    assert len(shown) < 5
    find.send_keys(Keys.CONTROL, "a")
    find.send_keys(Keys.DELETE)
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()
    page.until(lambda: not dialog.is_displayed())


def test_planners_are_grouped_by_what_they_are_for(real):
    page = real.at(START)
    assert page.js(GROUPS) == list(PURPOSES)
