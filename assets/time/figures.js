/* Times and sizes as the server writes them (explorer/words/text.py), for what changes with every frame. */
(function () {
  "use strict";
  const ex = window.explorer;
  const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const SIZES = [[1024 ** 4, "TiB"], [1024 ** 3, "GiB"], [1024 ** 2, "MiB"], [1024, "KiB"]];

  /* Three significant digits, no trailing zeros. */
  function digits(value) {
    if (!value) return "0";
    const places = Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
    return value.toLocaleString("en-US", { minimumFractionDigits: 0, maximumFractionDigits: places });
  }

  function seconds(value) {
    if (!value) return "0 s";
    const [scale, unit] = TIMES.find(([s]) => value / s >= 0.9995) || TIMES[3];
    return digits(value / scale) + " " + unit;
  }

  function nbytes(value) {
    const unit = SIZES.find(([s]) => value >= s * 0.9995);
    return unit ? digits(value / unit[0]) + " " + unit[1] : Math.round(value) + " B";
  }

  /* A clock's reading: all of one schedule in one unit, with as many decimals. */
  function clock(span) {
    const [scale, unit] = TIMES.find(([s]) => span >= s) || TIMES[3];
    const places = Math.max(0, 3 - Math.floor(Math.log10(span / scale)));
    return { unit: unit, read: (at) => (at / scale).toFixed(places), scale: scale };
  }

  /* Ascending numbers in few words: "0–3, 7". */
  function ranges(numbers) {
    const runs = [];
    for (const number of [...numbers].sort((a, b) => a - b)) {
      const last = runs[runs.length - 1];
      if (last && number === last[1] + 1) last[1] = number;
      else runs.push([number, number]);
    }
    return runs.map(([a, b]) => (a === b ? String(a) : a + "–" + b)).join(", ");
  }

  ex.figures = { seconds, nbytes, clock, ranges };
})();
