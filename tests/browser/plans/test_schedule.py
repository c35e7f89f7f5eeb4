"""The schedule as a chart: zoomed and moved, read bar by bar, with many devices, and what of it is drawn as one."""

from __future__ import annotations

import itertools

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.browser.page import DIM

pytestmark = pytest.mark.browser

RANGE = "return window.explorer.gantt.drawn().range"
TIP = "const tip = document.querySelector('.tip-box'); return tip.hidden ? '' : tip.innerText"
WHEEL = """
const [x, y, by] = arguments;
document.elementFromPoint(x, y).dispatchEvent(new WheelEvent('wheel', {
  clientX: x, clientY: y, deltaY: by, bubbles: true, cancelable: true }));
return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))));
"""
PIECES = """
const [base, x, range, scale] = arguments;
const [lane] = window.explorer.lanes.of([{ from: base, long: x, y: 0, tall: 0.6 }]);
const found = [];
window.explorer.lanes.pieces(lane, range, scale, (i, left, right) => found.push(['one', left, right]),
  (left, right, share) => found.push(['run', left, right, share]));
return found;
"""
AT = """
const [base, x, time, slack] = arguments;
const [lane] = window.explorer.lanes.of([{ from: base, long: x, y: 0, tall: 0.6 }]);
const found = window.explorer.lanes.barAt(lane, time, slack);
return found < 0 ? -1 : lane.at[found];
"""
NAMED = """
const [groups, rows, px] = arguments;
const filled = (value) => Array(rows).fill(value);
return window.explorer.rowNames.named({ height: filled(1), link: filled(false), groups: groups }, px);
"""
TICKS = "return window.explorer.axis.ticks(arguments[0], arguments[1], ' ms').map((tick) => tick.words)"
STEPS = "return [...window.explorer.strips.steps(arguments[0], arguments[1])]"
BOXES = """
return [...document.querySelectorAll(arguments[0])].map((element) => {
  const box = element.getBoundingClientRect();
  return [box.left, box.top, box.right, box.bottom];
});
"""
HEAT = """
const canvas = document.querySelector(`.mem-row[data-device='${arguments[0]}'] canvas`);
const copy = document.createElement('canvas');
copy.width = canvas.width;
const pen = copy.getContext('2d');
pen.drawImage(canvas, 0, 0);
const pixels = pen.getImageData(0, 0, canvas.width, 1).data;
return Array.from({ length: canvas.width }, (_, i) => [pixels[4 * i], pixels[4 * i + 1], pixels[4 * i + 2]]);
"""
SETTLE = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
MANY = "model=chain&devices=24&devices_per_node=8&rows=devices&theme=light"


def test_a_bar_is_painted_in_the_colour_of_its_device_and_says_what_it_is(fake):
    fake.at("theme=light")
    names = [name for name, _ in fake.bars]
    for name, colour in (
        ("GPU 0 forward", "0,114,178"),
        ("GPU 1 forward", "230,159,0"),
        ("GPU 2 forward", "0,158,115"),
    ):
        assert colour in fake.inked(*fake.bar(names.index(name)), 12, 8)
    fake.point(*fake.bar(names.index("GPU 2 forward"), 3))
    fake.until(lambda: "forward, stage 2, micro-batch 3" in fake.js(TIP))
    assert fake.js(TIP).startswith("GPU 2")
    fake.point(2, 2)
    fake.until(lambda: not fake.js(TIP))


def test_the_wheel_zooms_about_the_pointer_and_a_double_click_shows_all_again(fake):
    fake.at()
    whole = fake.js(RANGE)
    x, y = fake.bar(0, 3)
    for _ in range(6):
        fake.js(WHEEL, x, y, -120)
    near = fake.js(RANGE)
    assert near[1] - near[0] < (whole[1] - whole[0]) / 3
    assert fake.bar(0, 3)[0] == pytest.approx(x, abs=2)
    for _ in range(40):
        fake.js(WHEEL, x, y, 120)
    assert fake.js(RANGE) == pytest.approx(whole)  # nothing is to be seen beyond the schedule
    fake.js(WHEEL, x, y, -120)
    chain = ActionChains(fake.browser)
    hand = chain.w3c_actions.pointer_action
    hand.move_to_location(x, y)
    hand.click()
    hand.click()
    chain.perform()
    fake.until(lambda: fake.js(RANGE) == pytest.approx(whole))


def test_two_fingers_zoom_and_keep_what_they_were_put_on(fake):
    fake.at()
    fake.find(".gantt-card .canvas").send_keys("0")
    fake.js(SETTLE)
    x, y = fake.bar(0, 3)

    def touch(kind, *places):
        points = [{"x": place, "y": y, "id": i} for i, place in enumerate(places)]
        fake.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        fake.js(SETTLE)

    whole = fake.js(RANGE)
    touch("touchStart", x)
    touch("touchStart", x, x + 40)
    touch("touchMove", x, x + 80)
    touch("touchMove", x - 40, x + 80)
    near = fake.js(RANGE)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 3, rel=0.02)
    assert fake.bar(0, 3)[0] == pytest.approx(x - 40, abs=3)
    touch("touchMove", x - 40, x - 30)  # too near to say how far apart they want to be
    assert fake.js(RANGE) == near
    touch("touchEnd")
    fake.find(".gantt-card .canvas").send_keys("0")
    fake.until(lambda: fake.js(RANGE) == pytest.approx(whole))


def test_dragging_moves_what_is_in_sight_with_the_pointer(fake):
    fake.at()
    canvas = fake.find(".gantt-card .canvas")
    for _ in range(4):
        canvas.send_keys("+")
    fake.js(SETTLE)
    before, y = fake.js(RANGE), fake.bar()[1]
    sight = fake.js(
        "const s = window.explorer.gantt.sight(); return [s.left, s.width, s.plot.getBoundingClientRect().left]"
    )
    x = round(sight[2] + sight[0] + sight[1] / 2)
    chain = ActionChains(fake.browser, duration=20)
    hand = chain.w3c_actions.pointer_action
    hand.move_to_location(x, y)
    hand.pointer_down()
    hand.move_to_location(x + 60, y)
    hand.pointer_up()
    chain.perform()
    fake.js(SETTLE)
    after = fake.js(RANGE)
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])
    assert before[0] - after[0] == pytest.approx(60 / sight[1] * (before[1] - before[0]), rel=0.05)
    assert "Hover or click" in fake.text("inspector")  # who drags does not click
    canvas.send_keys("0")
    fake.until(lambda: fake.js(RANGE)[0] == 0)


def test_the_names_of_rows_are_one_stop_of_the_keyboard_with_arrows_between_them(fake):
    fake.at("rows=devices")
    stops = "return [...document.querySelectorAll('.row-name')].filter((name) => name.tabIndex === 0).length"
    assert fake.js(stops) == 1
    fake.js("document.querySelector('.row-name').focus()")
    ActionChains(fake.browser).send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER).perform()
    fake.until(lambda: "GPU 2" in fake.text("inspector"))
    assert fake.js(stops) == 1
    assert fake.js(DIM) > 0
    ActionChains(fake.browser).send_keys(Keys.ENTER).perform()
    fake.until(lambda: fake.js(DIM) == 0)


def test_rows_are_bracketed_by_node_and_names_never_overlap(fake):
    fake.open(MANY)
    assert [b.text for b in fake.browser.find_elements("css selector", ".row-group")] == ["node 0", "node 1", "node 2"]
    rows = fake.js(BOXES, ".row-name")
    assert len(rows) == 24
    names = sorted(box for box in fake.js(BOXES, ".row-name:not(.unnamed) span") if box[3] > box[1])
    assert len(names) >= 3
    for above, below in zip(sorted(names, key=lambda b: b[1]), sorted(names, key=lambda b: b[1])[1:], strict=False):
        assert below[1] >= above[3] - 3  # of the line's height; the letters are lower
    groups = fake.js(BOXES, ".row-group")
    for n, (_, top, _, bottom) in enumerate(groups):
        for _, first, _, last in rows[8 * n : 8 * n + 8]:
            assert top - 2 <= (first + last) / 2 <= bottom + 2


def test_many_devices_have_a_strip_of_memory_each_that_is_stronger_where_it_is_fuller(fake):
    fake.open(MANY)
    assert [e.text for e in fake.browser.find_elements("css selector", ".mem-group")] == ["node 0", "node 1", "node 2"]
    assert len(fake.browser.find_elements("css selector", ".mem-row")) == 24
    assert fake.browser.find_elements("css selector", ".mem") == []
    assert "of the cap" in fake.find(".heat-legend").text
    darkness = [765 - sum(pixel) for pixel in fake.js(HEAT, 0)]
    assert darkness[len(darkness) // 2] > darkness[-1]  # what is in flight is freed by the end
    fake.click(".mem-row[data-device='2']")
    fake.until(lambda: "GPU 2" in fake.text("inspector"))
    fake.click("#clock-on")
    fake.until(lambda: "iB" in fake.find(".mem-row[data-device='0'] .mem-now").text)
    assert len(fake.js(BOXES, ".mem-rows .mem-line")) == 3
    fake.js("window.explorer.clock.rest()")
    fake.open("devices=4")
    assert len(fake.browser.find_elements("css selector", ".mem")) == 4


def test_narrow_bars_are_drawn_as_runs_that_are_as_strong_as_they_are_dense(fake):
    fake.at()
    base, long = [i / 2 for i in range(100)], [0.25] * 100
    assert fake.js(PIECES, base, long, [0, 50], 100) == [["one", 50 * i, 50 * i + 25] for i in range(100)]
    [[kind, left, right, share]] = fake.js(PIECES, base, long, [0, 50], 2)
    assert (kind, left, right) == ("run", 0, 99.5)
    assert share == pytest.approx(0.25 * 100 / 49.75)
    [[_, left, right, share]] = fake.js(PIECES, base, long, [10, 19.9], 2)  # what is out of sight is not drawn
    assert (left, right) == (0, 19.5)
    assert fake.js(PIECES, [0, 5], [0.1, 0.1], [0, 10], 2) == [["run", 0, 0.2, 1], ["run", 10, pytest.approx(10.2), 1]]
    assert [kind for kind, *_ in fake.js(PIECES, [0, 1, 3], [0.1, 1, 0.1], [0, 10], 2)] == ["one", "run", "run"]


def test_the_bar_under_a_pointer_is_the_one_at_it_or_the_nearest_within_reach(fake):
    fake.at()
    base, long = [4.0, 0.0, 2.0], [1.0, 1.0, 0.1]
    assert [fake.js(AT, base, long, at, 0.3) for at in (0.5, 1.2, 1.5, 2.3, 4.0, 5.6)] == [1, 1, -1, 2, 0, -1]


@pytest.mark.parametrize(
    ("rows", "each", "px"), [(64, 8, 6), (64, 8, 7.3), (24, 8, 11), (33, 16, 8), (12, 0, 30), (40, 0, 5)]
)
def test_as_many_rows_are_named_as_there_is_room_for_and_the_first_of_every_node(fake, rows, each, px):
    fake.at()
    groups = [{"from": i, "to": min(i + each, rows), "label": ""} for i in range(0, rows, each)] if each else []
    named = [i for i, shown in enumerate(fake.js(NAMED, groups, rows, px)) if shown]
    within = [[i for i in named if g["from"] <= i < g["to"]] for g in groups] or [named]
    assert all(members and members[0] == first["from"] for members, first in zip(within, groups, strict=False))
    assert all((b - a) * px >= 13 for members in within for a, b in itertools.pairwise(members))
    assert px < 13 or len(named) == rows


def test_ticks_are_round_and_as_many_as_fit(fake):
    fake.at()
    assert fake.js(TICKS, [0, 10], 400) == ["0 ms", "2 ms", "4 ms", "6 ms", "8 ms", "10 ms"]
    assert fake.js(TICKS, [0.2, 0.45], 400) == ["0.20 ms", "0.25 ms", "0.30 ms", "0.35 ms", "0.40 ms", "0.45 ms"]
    assert len(fake.js(TICKS, [0, 1], 150)) == 3


def test_a_step_of_a_strip_shows_the_highest_that_was_held_in_it(fake):
    fake.at()
    assert fake.js(STEPS, [[0, 0.5], [0.5, 0.25]], 4) == [0.5, 0.5, 0.25, 0.25]
    assert fake.js(STEPS, [[0, 0.5], [0.3, 0.9], [0.31, 0.25]], 4) == [0.5, 0.9, 0.25, 0.25]


def test_on_paper_the_schedule_is_as_sharp_as_type(fake):
    fake.at()
    width = "return document.querySelector('#gantt canvas').width"
    screen = fake.js(width)
    fake.js("window.dispatchEvent(new Event('beforeprint'))")
    assert fake.js(width) >= 2.9 * screen
    fake.js("window.dispatchEvent(new Event('afterprint'))")
    assert fake.js(width) == screen
