// Builds the console into the package: npm install && npm run build.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const out = "../raftlog/broker/console/static";
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const shared = { bundle: true, minify: true, format: "esm", target: "es2022", outdir: out, entryNames: "[name]-[hash]",
  metafile: true, jsx: "automatic", jsxImportSource: "preact", legalComments: "none", charset: "utf8" };
const nameOf = (result, ending) =>
  Object.keys(result.metafile.outputs).map((path) => path.split("/").pop()).find((name) => name.endsWith(ending));
const worker = await build({ ...shared, entryPoints: ["src/decoder.ts"] });
const app = await build({ ...shared, entryPoints: { app: "src/app.tsx" },
  define: { WORKER: JSON.stringify(nameOf(worker, ".js")) } });
const page = readFileSync("src/index.html", "utf8")
  .replace("APP_JS", nameOf(app, ".js")).replace("APP_CSS", nameOf(app, ".css"));
writeFileSync(`${out}/index.html`, page);
// A test compares this with the sources: a bundle that was not built again is found.
const digest = createHash("sha256");
for (const name of readdirSync("src").sort()) digest.update(name + "\n").update(readFileSync(`src/${name}`));
writeFileSync(`${out}/sources.sha256`, digest.update(readFileSync("package.json")).digest("hex") + "\n");
