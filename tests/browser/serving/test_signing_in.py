"""A person signs in with a browser."""

from __future__ import annotations

import pytest

from tests.browser.page import Page
from tests.browser.serving.conftest import TOKEN

pytestmark = pytest.mark.browser


@pytest.fixture
def page(window, guarded):
    yield Page(window, guarded)
    window.get(guarded)
    window.delete_all_cookies()
    window.get_log("browser")  # 401 is logged there


HELD = """
const Own = window.WebSocket;
window.WebSocket = class extends Own { constructor(...given) { super(...given); window.lastSocket = this; } };
"""


def has_plan(page: Page) -> bool:
    return page.js("return document.body.dataset.state || ''") == "optimal"


def test_the_form_leads_to_the_requested_page(page):
    page.browser.get(page.address + "?model=chain&devices=3")
    assert "sign in" in page.browser.title
    page.find("#token").send_keys("not the token of this server")
    page.click("button")
    page.until(lambda: "not this server" in page.browser.page_source)
    page.find("#token").send_keys(TOKEN)
    page.click("button")
    page.until(lambda: has_plan(page))
    assert "devices=3" in page.query
    assert TOKEN not in page.browser.page_source
    assert page.js("return document.cookie") == ""


def test_a_link_with_the_token_opens_the_page_and_leaves_the_address(page):
    page.browser.get(page.address + f"?model=chain&token={TOKEN}")
    page.until(lambda: has_plan(page))
    assert TOKEN not in page.browser.current_url
    assert TOKEN not in page.js("return performance.getEntriesByType('navigation')[0].name")


def test_a_page_that_was_signed_out_says_so(page):
    held = page.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HELD})
    page.browser.get(page.address + f"?model=chain&token={TOKEN}")
    page.until(lambda: has_plan(page))
    page.browser.delete_all_cookies()
    page.js("window.lastSocket.close()")
    page.until(lambda: "signed out" in page.text("status"))
    page.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", held)
