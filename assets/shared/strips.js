/* Memory over time of many devices: a strip each, as strong in colour as it is full, in a panel for every node. */
(function () {
  "use strict";
  const ex = window.explorer;
  const STEPS = 320; /* of a strip, over the whole time */
  const KEYS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
  const listened = new WeakSet();
  const STOPS = ["--heat-0", "--heat-1", "--heat-2", "--heat-3", "--heat-4"];

  /* From a place on the scale to a colour [r, g, b]; above 1 is above the cap. */
  function ramp(root) {
    const style = getComputedStyle(root);
    const channels = (name) => [1, 3, 5].map((at) => parseInt(style.getPropertyValue(name).trim().slice(at, at + 2), 16));
    const stops = STOPS.map(channels);
    const over = channels("--heat-over");
    return function (share) {
      if (share > 1 + 1e-9) return over;
      const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
      const low = Math.min(Math.floor(at), stops.length - 2);
      return stops[low].map((value, i) => Math.round(value + (stops[low + 1][i] - value) * (at - low)));
    };
  }

  /* The highest place of each step of the time; points: where it changes. */
  function steps(points, count) {
    const highest = new Float64Array(count);
    points.forEach(function ([from, share], i) {
      const until = i + 1 < points.length ? points[i + 1][0] : 1;
      const first = i ? Math.min(count - 1, Math.floor(from * count)) : 0;
      const last = Math.min(count - 1, Math.max(first, Math.ceil(until * count) - 1));
      for (let at = first; at <= last; at++) highest[at] = Math.max(highest[at], share);
    });
    return highest;
  }

  /* One pixel high: the page stretches it. */
  function strip(points, colour, parent) {
    const canvas = ex.element("canvas", "heat", null, parent);
    [canvas.width, canvas.height] = [STEPS, 1];
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(STEPS, 1);
    steps(points, STEPS).forEach((share, at) => image.data.set([...colour(share), 255], 4 * at));
    pen.putImageData(image, 0, 0);
  }

  function row(figures, colour, pick, parent) {
    const button = ex.element("button", "mem-row" + (figures.over ? " over" : "") + (figures.name.length > 7 ? " long" : ""), null, parent);
    button.type = "button";
    button.dataset.device = figures.device;
    button.title = figures.name + ": peak " + figures.peak + (figures.share ? ", " + figures.share + " of its cap" : "") + ". Click to show only this device.";
    ex.element("i", "swatch s" + (figures.device % 64), null, button);
    ex.element("span", "mem-name", figures.name, button);
    strip(figures.points, colour, button);
    ex.element("b", "v", figures.share || figures.peak, button);
    button.addEventListener("click", () => pick(figures.device));
    return button;
  }

  function legend(charts, colour, parent) {
    const place = ex.element("div", "heat-legend", null, parent);
    ex.element("span", "", "Memory, share " + charts.what, place);
    const scale = ex.element("span", "heat-scale", null, place);
    const bar = ex.element("i", "heat-bar", null, scale);
    const shades = Array.from({ length: 9 }, (_, i) => "rgb(" + colour(i / 8).join(",") + ")");
    bar.style.background = "linear-gradient(90deg," + shades.join(",") + ")";
    const words = ex.element("span", "heat-ticks", null, scale);
    for (const [, label] of charts.ticks) ex.element("span", "", label, words);
    if (charts.over) {
      const key = ex.element("span", "heat-over", null, place);
      ex.element("i", "", null, key).style.background = "rgb(" + colour(2).join(",") + ")";
      ex.element("span", "", "over the cap", key);
    }
    ex.element("span", "spring", null, place);
    ex.element("span", "", "the number is the peak; time runs as in the schedule", place).className = "heat-note";
  }

  /* place: the frame; charts: of explorer.view.timeline.charts; pick: what a click on a device does. */
  ex.strips = function (place, charts, pick) {
    place.replaceChildren();
    const colour = ramp(place);
    legend(charts, colour, place);
    const panels = ex.element("div", "mem-panels", null, place);
    const rows = [];
    for (const panel of charts.panels) {
      const made = ex.element("div", "mem-panel", null, panels);
      made.setAttribute("role", "group");
      made.setAttribute("aria-label", "Memory of " + panel.label);
      ex.element("span", "mem-group", panel.label, made);
      const body = ex.element("div", "mem-rows", null, made);
      for (const each of panel.rows) rows.push(row(each, colour, pick, body));
    }
    rows.forEach((button, at) => { button.tabIndex = at ? -1 : 0; }); /* one stop for all */
    if (!listened.has(place)) ex.roving(place, ".mem-row", KEYS);
    listened.add(place);
  };
  ex.strips.steps = steps;
})();
