// Which records a reader wants. No IO: the worker uses it, and tests do.
export interface Filter { place: "any" | "key" | "value" | "header" | "json"; text: string }
export interface Texts { key: string | null; value: string | null; headers?: [string, string | null][] }

export function wants(filter: Filter): (texts: Texts) => boolean {
  const text = filter.text.toLowerCase();
  const has = (one: string | null | undefined) => one?.toLowerCase().includes(text) ?? false;
  if (!text) return () => true;
  switch (filter.place) {
    case "key": return (one) => has(one.key);
    case "value": return (one) => has(one.value);
    case "header": return (one) => (one.headers ?? []).some(([name, value]) => has(name) || has(value));
    case "json": return member(filter.text);
    case "any": return (one) => has(one.value) || has(one.key);
  }
}
// `address.city=Paris`: the member has this text; `address.city`: there is such a member.
function member(text: string): (texts: Texts) => boolean {
  const at = text.indexOf("="), path = (at < 0 ? text : text.slice(0, at)).trim();
  const wanted = at < 0 ? null : text.slice(at + 1).trim().toLowerCase();
  const steps = path.replace(/\[(\d+)\]/g, ".$1").split(".").filter(Boolean);
  return ({ value }) => {
    if (!value || !/^\s*[[{]/.test(value)) return false;
    let found: unknown;
    try { found = JSON.parse(value); } catch { return false; }
    for (const step of steps) {
      if (typeof found !== "object" || found === null || !Object.hasOwn(found, step)) return false;
      found = (found as Record<string, unknown>)[step];
    }
    const shown = typeof found === "string" ? found : JSON.stringify(found);
    return wanted === null || shown.toLowerCase().includes(wanted);
  };
}
