// Headers of a record to produce: one `name: value` a line.
export function headersOf(text: string): { key: string; value: string }[] {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const at = line.indexOf(":");
    if (at < 1) throw new Error(`Headers: expected "name: value", received ${JSON.stringify(line.slice(0, 60))}.`);
    return { key: line.slice(0, at).trim(), value: line.slice(at + 1).trim() };
  });
}
