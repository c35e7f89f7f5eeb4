"""Each GPU has a kind and a cap of its own in a table, in the plan and in the link."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

START = "model=gpt-small&devices=3&micro_batches=4&planner=equal&effort=quick&v=2"
OPEN = "const box = document.querySelector('details.each'); if (!box.open) box.querySelector('summary').click()"
ROWS = """
const row = (r) => [r.querySelector('select').value, r.querySelector('input').value];
return [...document.querySelectorAll('#fleet tr')].map(row);
"""
CAPS = "return [...document.querySelectorAll('#memory-cards .mem, .mem')].map((m) => m.title)"


def linked(page, key):
    return parse_qs(page.query.lstrip("?")).get(key, [""])[0]


def cap(page, place, text):
    field = page.find(f"#fleet tr:nth-child({place + 1}) input")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(text, Keys.ENTER)


def test_a_cap_and_a_kind_of_one_gpu_are_set_kept_and_let_go(real):
    page = real.open(START)
    page.js(OPEN)
    page.until(lambda: len(page.js(ROWS)) == 3)
    assert len({tuple(row) for row in page.js(ROWS)}) == 1
    kind = page.js(ROWS)[0][0]
    page.change(lambda: cap(page, 1, "4 GiB"))
    caps = linked(page, "memory").split(",")
    assert len(caps) == 3
    assert float(caps[1]) == 4 * 2**30
    assert page.js(ROWS)[1] == [kind, "4 GiB"]
    assert not page.find("#memory-field").is_enabled()
    assert any("of 4 GiB" in title for title in page.js(CAPS))
    other = next(o.text for o in Select(page.find("#fleet select")).options if o.text != kind)
    page.change(lambda: Select(page.find("#fleet tr:nth-child(3) select")).select_by_visible_text(other))
    assert linked(page, "device_kind") == f"2x{kind},1x{other}"
    link = page.query
    page.open(link.lstrip("?"))
    page.js(OPEN)
    page.until(lambda: [row[0] for row in page.js(ROWS)] == [kind, kind, other])
    assert page.js(ROWS)[1][1] == "4 GiB"
    assert page.query == link
    page.change(lambda: page.click("#fleet-alike"))
    assert linked(page, "memory") == ""
    assert linked(page, "device_kind") in ("", kind)
    page.until(lambda: page.find("#memory-field").is_enabled())
    page.change(page.browser.back)
    page.until(lambda: [row[0] for row in page.js(ROWS)] == [kind, kind, other])


def test_what_is_no_size_is_marked_and_asks_nothing(real):
    page = real.open(START)
    page.js(OPEN)
    page.until(lambda: len(page.js(ROWS)) == 3)
    before = page.query
    cap(page, 0, "many")
    page.until(lambda: page.find("#fleet input").get_attribute("aria-invalid") == "true")
    assert page.query == before
    assert page.state != "failed"


def test_three_kinds_of_a_link_are_in_the_table(real):
    page = real.open(START.replace("devices=3&", "") + "&device_kind=V100-16GB,A100-40GB,H100-80GB")
    page.js(OPEN)
    page.until(lambda: [row[0] for row in page.js(ROWS)] == ["V100-16GB", "A100-40GB", "H100-80GB"])
    assert linked(page, "device_kind") == "1xV100-16GB,1xA100-40GB,1xH100-80GB"


def test_a_cluster_by_name_takes_the_place_of_the_settings_until_it_is_left_out(real):
    page = real.open(START)
    named = lambda: Select(page.find("#named-cluster"))  # noqa: E731
    page.change(lambda: named().select_by_value("v100-node"))
    assert linked(page, "cluster") == "v100-node"
    assert [title for title in page.js(CAPS) if "of 14.9 GiB" not in title] == []
    assert len(page.js(CAPS)) == 4
    assert "v100-node" in page.text("opened-files")
    page.open(page.query.lstrip("?"))
    assert named().first_selected_option.get_attribute("value") == "v100-node"
    assert len(page.js(CAPS)) == 4
    page.change(lambda: page.find("#opened-files .opened button").click())
    assert named().first_selected_option.text == "custom"
    assert linked(page, "cluster") == ""
    assert not page.text("opened-files")
