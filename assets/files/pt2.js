/* A .pt2 without its weights: a zip of the entries that its reader looks at, copied as they are stored. */
(function () {
  "use strict";
  const ex = (window.explorer = window.explorer || {});
  /* Signatures, by APPNOTE.TXT (4.3): of an entry, of one in the directory, of the directory's end, of ZIP64's. */
  const ENTRY = 0x04034b50, LISTED = 0x02014b50, END = 0x06054b50, END64 = 0x06064b50, LOCATOR = 0x07064b50;
  const BEYOND = 0xffffffff; /* stands for a number that ZIP64 has */
  const END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56, COMMENT_BYTES = 65535;
  const MOST_DIRECTORY_BYTES = 64 * 2 ** 20;
  const MOST_ENTRIES = 1000; /* that remain; an export has about ten */
  /* Weights, constants, sample inputs and compiled code; pickles, as they were before torch 2.8. */
  const UNREAD = /(^|\/)data\/.|\.pt$/;

  const read = async (file, from, size) => new DataView(await file.slice(from, from + size).arrayBuffer());
  const long = (view, at) => Number(view.getBigUint64(at, true));

  /* The zip's directory of entries; null if there is none, or too large a one. */
  async function directory(file) {
    const from = Math.max(0, file.size - END_BYTES - COMMENT_BYTES - LOCATOR_BYTES);
    const tail = await read(file, from, file.size - from);
    const isEnd = (at) => tail.getUint32(at, true) === END && at + END_BYTES + tail.getUint16(at + 20, true) === tail.byteLength;
    let at = tail.byteLength - END_BYTES;
    while (at >= 0 && !isEnd(at)) at -= 1;
    if (at < 0) return null;
    let [size, offset] = [tail.getUint32(at + 12, true), tail.getUint32(at + 16, true)];
    const locator = at - LOCATOR_BYTES;
    if (locator >= 0 && tail.getUint32(locator, true) === LOCATOR) {
      const end64 = await read(file, long(tail, locator + 8), END64_BYTES);
      if (end64.getUint32(0, true) !== END64) return null;
      [size, offset] = [long(end64, 40), long(end64, 48)];
    }
    return size <= MOST_DIRECTORY_BYTES && offset + size <= file.size ? read(file, offset, size) : null;
  }

  /* What the directory says of the entry at a position in it. */
  function listed(view, at) {
    if (view.getUint32(at, true) !== LISTED) throw new RangeError("no entry of a zip");
    const [named, extra, comment] = [28, 30, 32].map((field) => view.getUint16(at + field, true));
    const name = new Uint8Array(view.buffer, at + 46, named);
    const entry = { at, name, size: view.getUint32(at + 24, true), stored: view.getUint32(at + 20, true), offset: view.getUint32(at + 42, true), next: at + 46 + named + extra + comment };
    for (let field = at + 46 + named; field + 4 <= at + 46 + named + extra; field += 4 + view.getUint16(field + 2, true)) {
      if (view.getUint16(field, true) !== 1) continue; /* 1: ZIP64's numbers, those that are beyond */
      let number = field + 4;
      for (const key of ["size", "stored", "offset"]) if (entry[key] === BEYOND) { entry[key] = long(view, number); number += 8; }
    }
    return entry;
  }

  /* The header of an entry, or what the directory says of it: fields that both have are in the same order. */
  function header(view, entry, offset) {
    const inDirectory = offset !== undefined;
    const made = new DataView(new ArrayBuffer(inDirectory ? 46 : 30));
    const shared = inDirectory ? 6 : 4;
    made.setUint32(0, inDirectory ? LISTED : ENTRY, true);
    for (let i = 0; i < 22; i++) made.setUint8(shared + i, view.getUint8(entry.at + 6 + i)); /* version to sizes */
    made.setUint16(shared + 2, view.getUint16(entry.at + 8, true) & ~8, true); /* bit 3: sizes after the data */
    made.setUint32(shared + 14, entry.stored, true);
    made.setUint32(shared + 18, entry.size, true);
    made.setUint16(shared + 22, entry.name.length, true);
    if (inDirectory) {
      made.setUint16(4, view.getUint16(entry.at + 4, true), true);
      made.setUint32(38, view.getUint32(entry.at + 38, true), true); /* attributes */
      made.setUint32(42, offset, true);
    }
    return [made.buffer, entry.name];
  }

  async function rebuilt(file) {
    const view = await directory(file);
    if (!view) return null;
    const entries = [];
    let left = 0;
    for (let at = 0, entry; at < view.byteLength; at = entry.next) {
      entry = listed(view, at);
      if (UNREAD.test(new TextDecoder().decode(entry.name))) left += entry.stored;
      else entries.push(entry);
    }
    if (!left || entries.length > MOST_ENTRIES || entries.some((entry) => Math.max(entry.size, entry.stored) >= BEYOND)) return null;
    const [parts, list] = [[], []];
    let offset = 0;
    for (const entry of entries) {
      const before = await read(file, entry.offset, 30);
      if (before.getUint32(0, true) !== ENTRY) return null;
      const from = entry.offset + 30 + before.getUint16(26, true) + before.getUint16(28, true);
      list.push(...header(view, entry, offset));
      parts.push(...header(view, entry), file.slice(from, from + entry.stored));
      offset += 30 + entry.name.length + entry.stored;
    }
    if (offset >= BEYOND) return null;
    const end = new DataView(new ArrayBuffer(END_BYTES));
    end.setUint32(0, END, true);
    for (const place of [8, 10]) end.setUint16(place, entries.length, true);
    end.setUint32(12, new Blob(list).size, true);
    end.setUint32(16, offset, true);
    return { body: new Blob([...parts, ...list, end.buffer]), left };
  }

  /* file: a .pt2, of which the directory and a few headers are read. Returns {body, left}: a small zip and the bytes of
     the weights that are not in it; null where there are none, or it is no such zip. */
  ex.withoutWeights = async function (file) {
    try { return await rebuilt(file); } catch { return null; }
  };
})();
