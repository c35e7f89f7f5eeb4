/* Of a schedule that is looked at closely: the numbers on its bars, and whether others are to be fetched. */
(function () {
  "use strict";
  const ex = window.explorer;
  const MOST_NUMBERS = 1200;
  const SIZES = [11, 9]; /* pixels */

  /* Micro-batch numbers of what is in sight: all of a lane, or none where a bar is too narrow for its own; null for lanes
     without. lanes: of ex.lanes; bars: columns; range: of the time axis; width: its pixels; row: pixels of a row. Returns
     {size, first, text} a lane; text begins with the lane's bar `first`. */
  ex.numbers = function (lanes, bars, range, width, row) {
    const scale = width / (range[1] - range[0]);
    let count = 0;
    const texts = lanes.map(function (lane) {
      if (!lane.source.ink) return null;
      let size = SIZES.find((each) => each <= lane.tall * row) || 0;
      const [first, last] = ex.lanes.inSight(lane, range);
      const text = [];
      for (let at = first; at < last; at++) {
        const i = lane.source.at[lane.at[at]];
        const micro = bars.micro[i];
        const wide = (bars.end[i] - bars.start[i]) * scale;
        if (bars.end[i] < range[0] || micro < 0 || bars.kind[i] === "U" || bars.kind[i] === "R" || bars.kind[i] === "X") { text.push(""); continue; }
        if (bars.kind[i] === "S") {
          text.push(wide - 8 > 6.2 * bars.label[i].length ? bars.label[i] : wide - 8 > 30 ? micro + "×" : "");
          continue;
        }
        const words = String(micro);
        const room = (wide - 1.5) / (0.58 * words.length);
        size = room >= size ? size : room >= SIZES[1] ? Math.min(size, SIZES[1]) : 0;
        if (!size) break;
        count += 1;
        text.push(words);
      }
      return size ? { size: size, first: first, text: text } : { size: 0, first: first, text: [] };
    });
    return count <= MOST_NUMBERS ? texts : texts.map((lane) => lane && { size: 0, first: 0, text: [] });
  };

  /* Whether bars of a part in sight are due: runs come apart, or others come into sight. detail: what is drawn; range: what
     is in sight; operators: whether a bar is an operator, or a run of them. */
  ex.detailDue = function (detail, range, operators) {
    const [from, to] = range;
    const width = detail.to - detail.from;
    const inside = from >= detail.from - width && to <= detail.to + width;
    const farther = !operators && to - from > 1.5 * width; /* what repeats is one bar again */
    return !inside || farther || (detail.merged && to - from < 0.6 * width);
  };
})();
