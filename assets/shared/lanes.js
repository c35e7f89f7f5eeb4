/* The bars of a schedule, lane by lane, in the order of time: which are in sight, which are drawn as one, and which is
   under a pointer. */
(function () {
  "use strict";
  const ex = window.explorer;
  const MIN_PX = 1; /* pixels: narrower bars are drawn as runs, and bridge gaps that are narrower */

  /* given: of explorer/view/timeline/canvas.py. Returns for each: source (itself), from, to, reach (until when anything that
     began so far lasts) and at (positions in its columns), by ascending from; y, tall. */
  function lanes(given) {
    return given.map(function (source) {
      const at = source.from.map((_, i) => i).sort((a, b) => source.from[a] - source.from[b]);
      const from = Float64Array.from(at, (i) => source.from[i]);
      const to = Float64Array.from(at, (i) => source.from[i] + source.long[i]);
      let reach = -Infinity;
      return { source: source, at: at, from: from, to: to, reach: to.map((end) => (reach = Math.max(reach, end))), y: source.y, tall: source.tall };
    });
  }

  /* How many of ascending numbers are not above this one. */
  function bisect(numbers, value) {
    let [low, high] = [0, numbers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numbers[middle] <= value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /* The bars of a lane that may be in sight, as a half-open interval. */
  const inSight = (lane, range) => [bisect(lane.reach, range[0]), bisect(lane.from, range[1])];

  /* What is drawn of a lane, from left to right: calls one(i, left, right) for a bar that is wide enough, and
     run(left, right, share) for narrow ones together, which cover that share of it. left, right: pixels from the range's
     begin, at scale pixels a unit of time. */
  function pieces(lane, range, scale, one, run) {
    const [first, last] = inSight(lane, range);
    let [begin, end, covered] = [0, -Infinity, 0];
    const flush = function () {
      if (covered > 0) run(begin, end, Math.min(1, covered / Math.max(end - begin, 1e-9)));
      [end, covered] = [-Infinity, 0];
    };
    for (let i = first; i < last; i++) {
      const [left, right] = [(lane.from[i] - range[0]) * scale, (lane.to[i] - range[0]) * scale];
      if (right - left >= MIN_PX) { one(i, left, right); continue; }
      if (left - end > MIN_PX) { flush(); begin = left; }
      end = Math.max(end, right);
      covered += right - left;
    }
    flush();
  }

  /* The bar of a lane at a time, or nearest to it within slack; -1 if there is none. */
  function barAt(lane, time, slack) {
    let [nearest, away] = [-1, slack];
    for (let i = bisect(lane.from, time + slack) - 1; i >= 0 && lane.reach[i] >= time - slack; i--) {
      const off = Math.max(lane.from[i] - time, time - lane.to[i], 0);
      if (off < away || (off === away && nearest < 0)) [nearest, away] = [i, off];
      if (off === 0) break;
    }
    return nearest;
  }

  ex.lanes = { of: lanes, inSight, pieces, barAt };
})();
