// Quotas in words and units that people read, and what a change would change. No IO.
import { number, size } from "./text";
import { amount, byteRate, megabytes } from "./units";

export interface Quota { user: string; client_id: string; limits: Record<string, number> }
export interface Step { name: string; before: number | null; after: number | null }
export const LIMITS = [
  { name: "producer_byte_rate", label: "Writes", unit: "MB/s" },
  { name: "consumer_byte_rate", label: "Reads", unit: "MB/s" },
  { name: "request_rate", label: "Requests", unit: "a second" },
  { name: "request_percentage", label: "Computing time", unit: "%" },
];
const isBytes = (name: string) => name.endsWith("byte_rate");

export const labelOf = (name: string) => LIMITS.find((one) => one.name === name)?.label ?? name;
export function shown(name: string, value: number | null | undefined): string {
  if (value === null || value === undefined) return "no limit";
  if (isBytes(name)) return `${value >= 1_000 && value % 10 ** (Math.floor(Math.log10(value)) - 1) ? `${megabytes(value)} MB` : size(value)}/s`;
  return name === "request_percentage" ? `${number(value, 6)} %` : name === "request_rate" ? `${number(value, 6)} a second` : number(value, 6);
}
// A limit as the form shows it: what `planned` reads back.
export const typed = (name: string, value: number | undefined) => (value === undefined ? "" : isBytes(name) ? megabytes(value) : value.toFixed(9).replace(/\.?0+$/, ""));

// The limits that a form's texts change. A text that was not edited keeps its value to the last digit.
export function planned(before: Record<string, number>, texts: Record<string, string>): Step[] {
  const steps: Step[] = [];
  for (const { name, label } of LIMITS) {
    const text = texts[name] ?? "", now = before[name];
    if (text.trim() === typed(name, now)) continue;
    const after = isBytes(name) ? byteRate(text, label) : amount(text, label, name === "request_percentage" ? "%" : "");
    if (after !== (now ?? null)) steps.push({ name, before: now ?? null, after });
  }
  return steps;
}
export const removal = (one: Quota): Step[] => Object.entries(one.limits).map(([name, before]) => ({ name, before, after: null }));
export const limitsOf = (steps: Step[]) => Object.fromEntries(steps.map((one) => [one.name, one.after]));
export const isOf = (user: string, client: string) => (one: Quota) => one.user === user && one.client_id === client;

const part = (name: string, what: string) => (name === "*" ? `each ${what} without a quota of its own` : name && `${what} ${name}`);
export const whose = (one: { user: string; client_id: string }) => [part(one.user, "user"), part(one.client_id, "client id")].filter(Boolean).join(" and ");
