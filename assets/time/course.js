/* How a schedule goes, as the server sent it once: what each device does, holds and has in flight at an instant. */
(function () {
  "use strict";
  const ex = window.explorer;
  const SAME = 1e-9; /* of the whole: instants that differ by less are one */

  /* How many of ascending numbers are not above this one. */
  function bisect(numbers, at) {
    let [low, high] = [0, numbers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numbers[middle] <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /* What occupies a device at an instant: its position among the device's spans, or -1. Cores of a CPU run several. */
  function busy(device, at) {
    for (let i = bisect(device.start_s, at) - 1; i >= 0; i--) {
      if (device.end_s[i] > at) return i;
      if (device.reach[i] <= at) return -1;
    }
    return -1;
  }

  /* played: of explorer.view.instants.played. */
  ex.course = function (played) {
    const span = played.span_s;
    const slack = SAME * span;
    const all = [...played.devices, played.moves].flatMap((spans) => [...spans.start_s, ...spans.end_s]).sort((a, b) => a - b);
    const events = all.filter((at, i) => i === 0 || at > all[i - 1] + slack);
    for (const device of played.devices) { /* until when anything that began so far goes on */
      let reach = 0;
      device.reach = device.end_s.map((end) => (reach = Math.max(reach, end)));
    }

    /* does: in words, null while there is nothing; from, until: of that; idle: whether that is any time at all; held: numbers of micro-batches; bytes. */
    function device(number, given) {
      const it = played.devices[number];
      const at = given + slack / 2; /* an instant that was reached by a step is not just before itself */
      const i = busy(it, at);
      const held = it.flights.filter(([, from, until]) => from <= at && at < until).map(([micro]) => micro);
      const bytes = it.memory.nbytes[Math.max(0, bisect(it.memory.times_s, at) - 1)];
      const state = { works: it.start_s.length > 0, held: held, bytes: bytes, cap: it.cap_bytes, name: it.name };
      if (i >= 0) return { ...state, does: played.labels[it.label[i]], idle: false, from: it.start_s[i], until: it.end_s[i] };
      const before = bisect(it.start_s, at);
      const until = before < it.start_s.length ? it.start_s[before] : span;
      const from = before ? it.reach[before - 1] : 0;
      return { ...state, does: null, idle: state.works && until - from > slack, from: from, until: until };
    }

    return {
      span: span,
      device: device,
      devices: played.devices.length,
      /* The interval between two events in which an instant lies: while it stays the same, so does everything. */
      place: (at) => bisect(events, at + slack / 2),
      next: (at) => events[Math.min(events.length - 1, bisect(events, at + slack / 2))],
      before: (at) => events[Math.max(0, bisect(events, at - slack / 2 - slack) - 1)],
      moving: (at) => played.moves.start_s.reduce((sum, start, i) => sum + (start <= at + slack / 2 && at + slack / 2 < played.moves.end_s[i] ? 1 : 0), 0),
    };
  };
})();
