// Amounts as people write them. No IO.
const FACTORS: Record<string, number> = { b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, kib: 1024, mib: 1024 ** 2, gib: 1024 ** 3 };

// Bytes a second: `20` is 20 MB/s, and `500 kB/s`, `1.5 GB` name their unit. Empty: null.
export function byteRate(text: string, what: string): number | null {
  const wanted = text.trim();
  if (!wanted) return null;
  const found = /^(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]{1,3})?(?:\/s)?$/i.exec(wanted), factor = FACTORS[(found?.[2] ?? "MB").toLowerCase()];
  const bytes = found && factor ? Math.round(Number(found[1]) * factor) : 0;
  if (bytes < 1) throw new Error(`${what}: expected MB/s such as 20, or an amount such as 500 kB/s, received ${wanted.slice(0, 60)}.`);
  return bytes;
}
// A number above zero, perhaps with a unit behind it that is always the same. Empty: null.
export function amount(text: string, what: string, unit = ""): number | null {
  const wanted = text.trim(), plain = unit && wanted.endsWith(unit) ? wanted.slice(0, -unit.length).trim() : wanted;
  if (!wanted) return null;
  const value = Number(plain);
  if (!/^\d{1,15}(\.\d{1,9})?$/.test(plain) || value <= 0) throw new Error(`${what}: expected a number above 0, received ${wanted.slice(0, 60)}.`);
  return value;
}
// Megabytes, without a loss: what `byteRate` reads back.
export const megabytes = (bytes: number) => (bytes / 1e6).toFixed(9).replace(/\.?0+$/, "");
