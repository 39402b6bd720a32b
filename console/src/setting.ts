// Values of settings as people type them. No IO.
export type Value = string | number | boolean | string[] | null;

// Numbers and booleans are sent as such; whole numbers that a script cannot hold, as text, which brokers accept.
export function typed(text: string, like: Value): Value {
  if (typeof like === "boolean" && /^(true|false)$/.test(text)) return text === "true";
  const digits = text.trim(), value = Number(digits);
  if (typeof like !== "number" || digits === "" || !Number.isFinite(value)) return text;
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? digits : value;
}
