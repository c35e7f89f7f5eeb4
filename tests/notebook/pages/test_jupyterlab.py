"""The widget in JupyterLab, from an environment without Dash."""

from __future__ import annotations

import os

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.notebook.pages.jupyter import Notebook, Server

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("watched")]

BLUE, ORANGE = "0,114,178", "230,159,0"
CELLS = (
    "import importlib.util\n"
    "assert importlib.util.find_spec('dash') is None\n"
    "import explorer\n"
    "graph = explorer.trace('gpt-small')\n"
    "graph",
    "w = explorer.PlacementWidget(graph, devices=4, planner='equal', micro_batches=4)\nw",
)
LONG = "planner='annealing', effort='thorough', time_limit_s=600, devices=8"


@pytest.fixture(scope="module")
def lab(chromium, jupyterlab: Server) -> Notebook:
    """A notebook with a plan in it."""
    chromium.set_window_size(1440, 1300)
    notebook = Notebook(chromium, jupyterlab, CELLS)
    notebook.run_all()
    notebook.solved()
    notebook.js("document.querySelector('.placement-explorer').scrollIntoView()")
    return notebook


def bar(lab: Notebook, row: int) -> tuple[int, int]:
    """Where the first bar of a row is, from the upper left corner of the window: it begins where its row does."""
    point = lab.js(
        "const name = document.querySelectorAll('.placement-explorer .row-name')[arguments[0]];"
        "const box = name.getBoundingClientRect(); return [box.right + 6, box.top + box.height / 2]",
        row,
    )
    return round(point[0]) + 4, round(point[1])


def click_at(lab: Notebook, x: int, y: int) -> None:
    chain = ActionChains(lab.browser)
    chain.w3c_actions.pointer_action.move_to_location(x, y)
    chain.w3c_actions.pointer_action.click()
    chain.perform()


def test_graph_and_schedule_are_really_painted(lab):
    lab.until(lambda: {BLUE, ORANGE} <= lab.painted(".chart canvas"))
    lab.until(lambda: {BLUE, ORANGE} <= lab.painted("canvas[data-id='layer2-node']"))
    assert len(lab.js("return document.querySelectorAll('.placement-explorer .mem')")) == 4
    assert "Why this plan" in lab.js("return document.querySelector('.placement-explorer .why').textContent")


def test_a_graph_shows_itself_as_a_card(lab):
    assert lab.js("return document.querySelectorAll('.jp-OutputArea img.pe-light').length") == 1


def test_a_control_gives_a_new_plan(lab):
    before = lab.python("print(len(w.result.problem.cluster))")
    lab.find("button[aria-label='One GPU more']").click()
    more = str(int(before) + 1)
    lab.until(lambda: lab.python("print(w.devices)") == more)
    lab.solved()
    lab.until(lambda: lab.python("print(w.result and len(w.result.problem.cluster))") == more)
    lab.until(lambda: len(lab.js("return document.querySelectorAll('.placement-explorer .mem')")) == int(more))
    lab.find("button[aria-label='One GPU less']").click()
    lab.until(lambda: len(lab.js("return document.querySelectorAll('.placement-explorer .mem')")) == int(before))


def test_what_cannot_be_is_reported_beside_the_controls(lab):
    field = lab.find("input[name='memory']")
    field.send_keys("plenty", Keys.ENTER)
    lab.until(lambda: "plenty" in lab.find(".refused").text)
    assert lab.python("print(w.memory)") == "None"
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("8GiB", Keys.ENTER)
    lab.until(lambda: lab.python("print(w.memory)") == "8GiB")
    lab.solved()
    assert lab.find(".refused").text == ""


def test_a_click_on_a_bar_selects_in_python(lab):
    lab.python("w.selection = None")
    lab.solved()
    lab.until(lambda: not lab.js("return document.querySelector('.shell').classList.contains('stale')"))
    lab.js("document.querySelector('.placement-explorer .gantt-card').scrollIntoView({block: 'center'})")
    click_at(lab, *bar(lab, 0))
    assert lab.until(lambda: lab.python("print(w.selection.kind if w.selection else '')")) == "stage"
    assert lab.python("print(w.selection.devices)") == "(0,)"
    lab.until(lambda: "In flight" in lab.find(".inspector").text)
    lab.find(".gantt-card .canvas").send_keys(Keys.ESCAPE)
    lab.until(lambda: lab.python("print(w.selection)") == "None")


def test_a_click_on_a_box_and_the_keyboard_select_in_python(lab):
    lab.python("w.selection = None")
    canvas = lab.find(".graph-card .canvas")
    canvas.send_keys(Keys.ARROW_DOWN)
    first = lab.until(lambda: lab.python("print(w.selection.name if w.selection else '')"))
    canvas.send_keys(Keys.ARROW_DOWN)
    lab.until(lambda: lab.python("print(w.selection.name)") not in ("", first))
    canvas.send_keys("/")
    lab.browser.switch_to.active_element.send_keys("mlp.up")
    lab.until(lambda: "mlp.up" in lab.find(".find ul").text)
    lab.browser.switch_to.active_element.send_keys(Keys.ENTER)
    lab.until(lambda: "mlp" in lab.python("print(w.selection.name)"))


def test_a_trait_set_in_python_moves_the_view(lab):
    lab.python("w.selection = 'GPU 2'")
    held = "return [...document.querySelectorAll('.placement-explorer .mem.held')].map((each) => each.dataset.device)"
    lab.until(lambda: lab.js(held) == ["2"])
    assert "GPU 2" in lab.find(".inspector").text
    lab.python("w.devices = 2")
    lab.until(lambda: len(lab.js("return document.querySelectorAll('.placement-explorer .mem')")) == 2)
    assert lab.find("input[name='devices']").get_attribute("value") == "2"
    lab.python("w.devices = 4")
    lab.until(lambda: len(lab.js("return document.querySelectorAll('.placement-explorer .mem')")) == 4)


def test_the_theme_of_the_notebook_is_followed(lab):
    try:
        lab.command("apputils:change-theme", theme="JupyterLab Dark")
        lab.until(lambda: lab.js("return document.querySelector('.placement-explorer').dataset.theme") == "dark")
        lab.until(lambda: lab.python("print(w._theme)") == "dark")
        page = "return getComputedStyle(document.querySelector('.placement-explorer .card')).backgroundColor"
        assert lab.js(page) == "rgb(22, 27, 33)"
    finally:
        lab.command("apputils:change-theme", theme="JupyterLab Light")
    lab.until(lambda: lab.js("return document.querySelector('.placement-explorer').dataset.theme") == "light")


def test_panels_beside_the_plan_are_answered_by_the_worker(lab):
    lab.python("w.devices, w.memory, w.pins, w.planner, w.selection = 4, None, {}, 'equal', None")
    settled(lab)
    lab.find(".clock .tool[title^='To the next']").click()
    lab.until(lambda: lab.find(".clock-time").text)
    lab.python("w.selection = 'blocks.0'")
    lab.until(lambda: lab.find(".why-here button")).click()
    lab.until(lambda: len(lab.js("return document.querySelectorAll('.why-here .places li')")) >= 4)
    lab.find("[data-act='keep']").click()
    lab.find("[data-act='review']").click()
    lab.until(lambda: lab.find(".review-lines"))
    lab.python("w.planner = 'local-search'")
    settled(lab)
    lab.js("const s = document.querySelector('.pin-to select'); s.value = '3'; s.dispatchEvent(new Event('change'))")
    lab.until(lambda: "pinned blocks.0 to GPU 3: " in lab.find(".pinned").text)
    lab.find(".pinned button").click()
    lab.until(lambda: lab.python("print(w.pins)") == "{}")
    settled(lab)
    lab.find("[data-act='differ']").click()
    lab.until(lambda: lab.find(".difference") and "iteration" in lab.find(".difference").text)
    lab.find("[data-act='compare']").click()
    lab.until(lambda: lab.find(".comparison .row-link"))
    lab.until(lambda: not lab.js("return document.querySelectorAll('.compared .tool').length"))
    lab.js("[...document.querySelectorAll('.row-link')].find((one) => one.textContent === 'single').click()")
    lab.until(lambda: lab.python("print(w.result.planner)") == "single")


def test_ways_out_come_from_the_worker_and_are_one_press_away(lab):
    lab.python("w.micro_batches, w.planner, w.memory = 4, 'auto', '1MiB'")
    lab.until(lambda: lab.state() in ("infeasible", "none"))
    lab.until(lambda: lab.find(".ways .strong")).click()
    settled(lab)
    assert lab.python("print(w.memory != '1MiB' or w.recompute or w.devices > 4)") == "True"
    lab.python("w.memory, w.recompute, w.planner, w.devices = None, False, 'equal', 4")
    settled(lab)


def settled(lab: Notebook) -> None:
    lab.until(lambda: lab.python("print(w.result is not None and w.result.plan is not None)") == "True")
    lab.solved()
    lab.until(lambda: not lab.js("return document.querySelector('.shell').classList.contains('stale')"))


def test_a_cell_does_not_wait_and_a_search_can_be_cancelled(lab):
    lab.python(f"v = explorer.PlacementWidget(graph, {LONG})")
    assert lab.python("print(v.result)") == "None"
    lab.until(lambda: lab.python("print(v.status)") == "solving")
    lab.python("v.cancel()")
    lab.until(lambda: lab.python("print(v.result and v.result.stop_reason)") == "CANCELLED")
    lab.python("v.close()")


def test_closing_while_solving_frees_the_worker(lab):
    lab.python(f"v = explorer.PlacementWidget(graph, {LONG})")
    lab.until(lambda: lab.python("print(v.status)") == "solving")
    lab.python("v.close()")
    lab.python("w.solve()")
    lab.until(lambda: lab.python("print(w.result is not None)") == "True")


def test_what_cannot_be_traced_is_one_line_and_leaves_the_widget_alone(lab):
    for line, words in (("explorer.trace('no-such-model')", "no-such-model"), ("explorer.trace(print, (1,))", "trac")):
        message = lab.python(line)
        assert words in message
        assert "\n" not in message
    assert lab.state() in ("optimal", "feasible")


def test_two_widgets_at_once(chromium, jupyterlab):
    both = Notebook(
        chromium,
        jupyterlab,
        (*CELLS, "v = explorer.PlacementWidget(graph, devices=2, planner='equal')\nv"),
        "two.ipynb",
    )
    both.run_all()
    both.solved(0)
    both.solved(1)
    count = "return [...document.querySelectorAll('.placement-explorer')].map((w) => w.querySelectorAll('.mem').length)"
    assert both.js(count) == [4, 2]
    both.python("v.devices = 3")
    both.until(lambda: both.js(count) == [4, 3])
    both.python("w.selection = 'GPU 0'")
    held = "return [...document.querySelectorAll('.placement-explorer')].map((w) => w.querySelectorAll('.held').length)"
    both.until(lambda: both.js(held) == [1, 0])


def test_two_widgets_in_a_box_share_its_width_and_a_slider_is_linked(chromium, jupyterlab):
    notebook = Notebook(
        chromium,
        jupyterlab,
        (
            *CELLS,
            "import ipywidgets\n"
            "v = explorer.PlacementWidget(graph, devices=2, planner='equal')\n"
            "s = ipywidgets.IntSlider(value=2, min=1, max=8)\n"
            "link = ipywidgets.jslink((v, 'devices'), (s, 'value'))\n"
            "ipywidgets.VBox([s, ipywidgets.HBox([w, v])])",
        ),
        "box.ipynb",
    )
    notebook.run_all()
    notebook.solved(2)
    widths = notebook.js(
        "return [...document.querySelectorAll('.widget-hbox .placement-explorer')].map((w) => w.clientWidth)"
    )
    assert min(widths) > 300, widths
    notebook.python("s.value = 3")
    notebook.until(lambda: notebook.python("print(v.devices)") == "3")
    notebook.python("v.devices = 4")
    notebook.until(lambda: notebook.python("print(s.value)") == "4")


def test_a_saved_notebook_shows_the_plan_where_no_kernel_knows_the_widget(chromium, jupyterlab):
    notebook = Notebook(chromium, jupyterlab, CELLS, "saved.ipynb")
    notebook.run_all()
    notebook.solved()
    picture = "[...document.querySelectorAll('[data-placement-explorer] img')].filter((i) => i.offsetWidth > 0)"
    assert notebook.js(f"return {picture}.length") == 0, "the picture stands beside the widget"
    source = "document.querySelector('[data-placement-explorer] img').src.split(',')[1]"
    notebook.until(lambda: notebook.js(f"return atob({source}).includes('GPU 3')"), "the picture is not of the plan")
    notebook.command("docmanager:save")
    notebook.js("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    notebook.open("saved.ipynb")
    notebook.until(lambda: notebook.js(f"return {picture}.length") == 1, "no picture is shown")
    assert notebook.js(f"return {picture}[0].naturalWidth") > 500
    outputs = "[...document.querySelectorAll('.jp-OutputArea-child')].filter((e) => e.offsetHeight > 0)"
    shown = notebook.js(f"return {outputs}.map((e) => e.innerText).join()")
    assert "Error" not in shown
    assert "Loading" not in shown


def test_after_a_restart_of_the_kernel_a_widget_works_and_the_old_worker_is_gone(chromium, jupyterlab):
    notebook = Notebook(chromium, jupyterlab, CELLS, "restart.ipynb")
    notebook.run_all()
    notebook.solved()
    process = "from explorer.notebook import workshop\nprint(workshop.jobs().workers[0].process.pid)"
    old = int(notebook.python(process))
    notebook.browser.execute_async_script(
        "const done = arguments[0]; window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
        ".then(() => done(), done)"
    )
    notebook.until(lambda: notebook.python("print(1 + 1)") == "2")
    banner = "const banner = document.querySelector('.placement-explorer .ended'); return banner.offsetHeight > 0"
    notebook.until(lambda: notebook.js(banner), "the widget does not say that its kernel has ended")
    assert notebook.js("return document.querySelector('.placement-explorer .controls').inert")
    notebook.run_all()
    notebook.until(lambda: notebook.python("print(bool(w.result))") == "True")
    notebook.solved()
    assert int(notebook.python(process)) != old
    notebook.until(lambda: _is_gone(old), "the worker of the old kernel lives on")


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False
