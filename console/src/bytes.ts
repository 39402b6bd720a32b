// Bytes of records as text. No IO.
export const SHOWN = 65_536;
const SHOWN_AS_HEX = 8_192;
const strict = new TextDecoder("utf-8", { fatal: true });

export function hex(data: Uint8Array): string {
  return Array.from(data, (each) => each.toString(16).padStart(2, "0")).join(" ");
}
// The first part of a text ends with a whole character: UTF-8 has at most three bytes after the first one of each.
function cut(data: Uint8Array): Uint8Array {
  if (data.length <= SHOWN) return data;
  let end = SHOWN;
  while (end > SHOWN - 3 && (data[end]! & 0xc0) === 0x80) end -= 1;
  return data.subarray(0, end);
}
export function decoded(data: Uint8Array | null): { shown: string | null; kind: string } {
  if (!data) return { shown: null, kind: "null" };
  const part = cut(data);
  try {
    const shown = strict.decode(part);
    return { shown, kind: /^\s*[[{]/.test(shown) ? "json" : "text" };
  } catch {
    return { shown: hex(part.subarray(0, SHOWN_AS_HEX)), kind: "hex" };
  }
}
