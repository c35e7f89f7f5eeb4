/* The names of a schedule's rows, at its left: a button each; and a bracket for the rows of a node. Of rows that are too low
   for a name each, some are named, and all can be pressed. */
(function () {
  "use strict";
  const ex = window.explorer;
  const NAME_PX = 13; /* of height, for a name */
  const BRACKET_PX = 18; /* of width, for a node's */
  const MARKS = 3; /* colours beside a name */

  /* Every how many rows of a group of `count` is named, so that names stand `NAME_PX` apart: a divisor where there is one. */
  function every(count, px) {
    const least = Math.max(1, Math.ceil(NAME_PX / px - 1e-9));
    for (let step = least; step <= Math.min(count, 2 * least); step++) if (count % step === 0) return step;
    return least;
  }

  /* Which rows are named. rows: label, height (1 is that of a device), link and groups; px: of a row. */
  function named(rows, px) {
    const chosen = rows.height.map((height, i) => rows.link[i] && height * px >= NAME_PX - 2);
    const groups = rows.groups && rows.groups.length ? rows.groups : [{ from: 0, to: rows.link.filter((link) => !link).length }];
    let next = 0;
    const name = function (from, to) {
      const step = every(to - from, px);
      for (let row = from; row < to; row += step) chosen[row] = true;
      next = to;
    };
    for (const group of groups) {
      if (group.from > next) name(next, group.from);
      name(group.from, group.to);
    }
    const devices = rows.link.findIndex(Boolean);
    const last = devices < 0 ? rows.link.length : devices;
    if (next < last) name(next, last);
    if (devices >= 0 && !rows.link.some((link, i) => link && chosen[i])) {
      const step = Math.ceil(NAME_PX / (px * rows.height[devices]));
      for (let row = devices; row < rows.link.length; row += step) chosen[row] = true;
    }
    return chosen;
  }

  /* place: where they stand; size: of the chart; y: pixels of a row's place; pick: what a press on a row does. */
  function draw(place, rows, size, y, pick) {
    place.replaceChildren();
    const shown = named(rows, size.row);
    const indent = rows.groups && rows.groups.length ? BRACKET_PX : 0;
    rows.middle.forEach(function (middle, row) {
      const link = rows.link[row];
      const button = ex.element("button", "row-name" + (link ? " of-link" : "") + (shown[row] ? "" : " unnamed"), "", place);
      button.type = "button";
      for (const device of rows.devices[row].slice(0, MARKS)) ex.element("i", "swatch s" + (device % 64), "", button);
      ex.element("span", "", rows.label[row], button);
      const tall = Math.max(2, Math.min(20, rows.height[row] * size.row));
      Object.assign(button.style, { top: y(middle) + "px", left: 4 + indent + "px", width: size.left - 8 - indent + "px", height: tall + "px" });
      button.title = rows.label[row] + ": show only this";
      button.tabIndex = row ? -1 : 0; /* one stop; arrows go on from there */
      button.addEventListener("click", () => pick(row));
    });
    for (const group of rows.groups || []) {
      const [top, bottom] = [y(rows.middle[group.from] - rows.height[group.from] / 2), y(rows.middle[group.to - 1] + rows.height[group.to - 1] / 2)];
      const bracket = ex.element("div", "row-group", "", place);
      Object.assign(bracket.style, { top: top + 1.5 + "px", height: bottom - top - 3 + "px" });
      if (bottom - top >= 6 * group.label.length + 6) ex.element("span", "", group.label, bracket);
      else if (bottom - top >= 12) ex.element("span", "level", group.label.replace(/^\D+/, ""), bracket);
      bracket.title = group.label;
    }
  }

  const listen = (place) => ex.roving(place, ".row-name", { ArrowDown: 1, ArrowUp: -1 });

  ex.rowNames = { draw, listen, named, BRACKET_PX };
})();
