/* Elements from data: text is only ever text. */
export function made(name, className, text, parent, attributes) {
  const found = document.createElement(name);
  if (className) found.className = className;
  if (text !== undefined && text !== null) found.textContent = text;
  for (const key of Object.keys(attributes || {})) found.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(found);
  return found;
}

/* A table with a header; the first column names the row. */
export function table(columns, rows, caption) {
  const found = made("table");
  made("caption", "sr", caption, found);
  const head = made("tr", "", null, made("thead", "", null, found));
  columns.forEach(([, title], i) => made("th", i ? "n" : "", title, head, { scope: "col" }));
  const body = made("tbody", "", null, found);
  for (const row of rows) {
    const line = made("tr", "", null, body);
    columns.forEach(([key], i) => made("td", i ? "n" : "", row[key], line));
  }
  return found;
}
