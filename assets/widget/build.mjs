/* The widget's module and its css, from the page's sources and its own: node assets/widget/build.mjs FOLDER */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
const target = process.argv[2] || join(root, "explorer", "notebook", "built");
const SECTIONS = ["key figures", "cards", "find", "chart", "memory", "why", "why here", "review, and what stands beside an answer", "what would help, and sweeps"]; /* of page.css, by the comments that begin them */
const LEVELS = ["chrome111", "firefox115", "safari16.4"];

/* cytoscape looks for the global object by compiling text, which a strict policy forbids; it has a name. */
const noCompiling = {
  name: "no-compiling",
  setup(build) {
    build.onLoad({ filter: /cytoscape[/\\]dist[/\\].*\.mjs$/ }, async function ({ path }) {
      const text = await readFile(path, "utf8");
      const parts = text.split(/Function\(["']return this["']\)\(\)/);
      if (parts.length !== 2) throw new Error(`${path}: expected to find the global object compiled once, found ${parts.length - 1}`);
      return { contents: parts.join("globalThis"), loader: "js" };
    });
  },
};

const license = await readFile(join(root, "node_modules", "cytoscape", "LICENSE"), "utf8");
const { version } = JSON.parse(await readFile(join(root, "node_modules", "cytoscape", "package.json"), "utf8"));
await mkdir(target, { recursive: true });
await esbuild.build({
  entryPoints: [join(here, "index.js")],
  outfile: join(target, "widget.js"),
  bundle: true,
  format: "esm",
  minify: true,
  target: LEVELS,
  define: { "window.explorer": "explorerParts" },
  inject: [join(here, "parts.js")],
  legalComments: "eof",
  banner: { js: `/* cytoscape ${version}:\n${license.replaceAll("*/", "* /")}*/` },
  plugins: [noCompiling],
  logLevel: "warning",
});

/* The page's rules hold inside the widget only; its keyframes are the widget's own. */
const page = await readFile(join(root, "assets", "page.css"), "utf8");
const parts = page.split(/^\/\* ([a-z ,]+) \*\/$/m);
const found = new Map([["", parts[0]]]);
for (let i = 1; i < parts.length; i += 2) found.set(parts[i], parts[i + 1]);
const sections = ["", ...SECTIONS].map(function (name) {
  if (!found.has(name)) throw new Error(`page.css has no section /* ${name} */`);
  return found.get(name);
});
const keyframes = [];
const time = await readFile(join(root, "assets", "time", "time.css"), "utf8");
const rules = [...sections, time].join("\n")
  .replace(/:root\[data-theme="dark"\]/g, '&[data-theme="dark"]')
  .replace(/:root/g, "&")
  .replace(/@keyframes (\w+) (\{[^}]*\{[^}]*\}[^}]*\})/g, (_, name, body) => { keyframes.push(`@keyframes placement-${name} ${body}`); return ""; })
  .replace(/animation: pulse/g, "animation: placement-pulse");
const own = await readFile(join(here, "widget.css"), "utf8");
const css = await esbuild.transform(`.placement-explorer {\n${rules}\n}\n${keyframes.join("\n")}\n${own}`, {
  loader: "css", minify: true, target: LEVELS,
});
await writeFile(join(target, "widget.css"), css.code);
