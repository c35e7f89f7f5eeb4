/* Of a schedule that is looked at closely: the numbers on its bars, and whether others are to be fetched. */
(function () {
  "use strict";
  const ex = window.explorer;
  const MOST_NUMBERS = 1200;
  const SIZES = [11, 9]; /* pixels */

  /* Micro-batch numbers of what is in sight: all of a trace, or none where a bar is too narrow for its
     own; null for traces without. bars: columns; range: of the time axis; width: its pixels. */
  ex.numbers = function (traces, bars, range, width) {
    const scale = width / (range[1] - range[0]);
    let count = 0;
    const found = traces.map(function (trace) {
      if (!trace.textfont) return null;
      let size = SIZES[0];
      const text = trace.customdata.map(function (i) {
        const micro = bars.micro[i];
        const unnumbered = micro < 0 || bars.kind[i] === "U" || bars.kind[i] === "R";
        if (unnumbered || bars.end[i] < range[0] || bars.start[i] > range[1]) return "";
        const repeats = bars.kind[i] === "S";
        const wide = (bars.end[i] - bars.start[i]) * scale - 8;
        if (repeats) return wide > 6.2 * bars.label[i].length ? bars.label[i] : wide > 30 ? micro + "×" : "";
        const words = String(micro);
        const room = ((bars.end[i] - bars.start[i]) * scale - 1.5) / (0.58 * words.length);
        size = room >= size ? size : room >= SIZES[1] ? SIZES[1] : 0;
        count += 1;
        return words;
      });
      return { size: size, text: size ? text : text.map(() => "") };
    });
    return count <= MOST_NUMBERS ? found : found.map((told) => told && { size: 0, text: told.text.map(() => "") });
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
