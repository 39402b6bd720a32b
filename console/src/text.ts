// Texts of others as text: control characters, and those that turn the direction of text, are shown by number.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const printable = (text: string) =>
  text.replace(HIDDEN, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
export const visible = (text: string | null | undefined, most = 300) =>
  text === null ? "(null)" : printable((text ?? "").slice(0, most)).replace(/\s/g, " ");
export function when(at: number): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString().replace("T", " ").slice(0, 23);
}
// A time as people write it: UTC, if it names no zone.
export function timeOf(text: string): number {
  const at = Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(text) ? text : `${text}${text.includes("T") ? "" : "T00:00"}Z`);
  if (Number.isNaN(at)) throw new Error(`Expected a time such as 2026-01-31T12:00, received ${text.slice(0, 60)}.`);
  return at;
}
export function ago(ms: number): string {
  const steps: [number, string][] = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1_000, "s"]];
  const [each, unit] = steps.find(([one]) => ms >= 2 * one) ?? [1, "ms"];
  return `${Math.floor(Math.max(0, ms) / each)} ${unit}`;
}
export const number = (value: unknown, digits = 0) =>
  typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: digits }) : "–";
export function size(bytes: unknown): string {
  if (typeof bytes !== "number") return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0, left = bytes;
  while (left >= 1000 && at < units.length - 1) { left /= 1000; at += 1; }
  return `${left.toLocaleString("en", { maximumFractionDigits: left < 10 && at ? 1 : 0 })} ${units[at]}`;
}
export const rate = (bytes: unknown) => (typeof bytes === "number" ? `${size(bytes)}/s` : "–");
// What a number of a setting means, where its name says the unit; empty: nothing to add.
export function meaning(name: string, value: unknown): string {
  if (typeof value !== "number" || value <= 0) return "";
  if (/_ms$/.test(name) && value >= 2_000) return ago(value);
  if (/_s$/.test(name) && value >= 120) return ago(1_000 * value);
  return /bytes(_per_second)?$/.test(name) && value >= 10_000 ? size(value) : "";
}
export const share = (value: unknown) => (typeof value === "number" ? `${number(100 * value)} %` : "–");
// The name of a file that a page offers for download: of letters, digits and a few signs only.
export const fileName = (...parts: (string | number)[]) =>
  parts.map((each) => String(each).replace(/[^\w.-]+/g, "_")).join("-").slice(0, 120);
