// Builds the tests and runs them with Node's own runner: npm test.
import { rmSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { build } from "esbuild";

const out = "node_modules/.tests";
await build({ entryPoints: ["tests/pure.test.ts"], bundle: true, platform: "node", format: "esm", outdir: out, outExtension: { ".js": ".mjs" } });
const { status } = spawnSync(process.execPath, ["--test", `${out}/pure.test.mjs`], { stdio: "inherit" });
rmSync(out, { recursive: true, force: true });
process.exit(status ?? 1);
