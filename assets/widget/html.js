/* Elements from data: text is only ever text. */
export function made(name, className, text, parent, attributes) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined && text !== null) element.textContent = text;
  for (const key of Object.keys(attributes || {})) element.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(element);
  return element;
}

/* A table with a header; the first column names the row. */
export function table(columns, rows, caption) {
  const table = made("table");
  made("caption", "sr", caption, table);
  const head = made("tr", "", null, made("thead", "", null, table));
  columns.forEach(([, title], i) => made("th", i ? "n" : "", title, head, { scope: "col" }));
  const body = made("tbody", "", null, table);
  for (const row of rows) {
    const line = made("tr", "", null, body);
    columns.forEach(([key], i) => made("td", i ? "n" : "", row[key], line));
  }
  return table;
}
