// JSON as text: what JavaScript's own parser would change stays as it was written. No IO.
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g, DEEPEST = 100;

// Indented by two spaces, with every literal and every member as it is; a text that is no JSON stays.
export function indented(text: string): string {
  try { JSON.parse(text); } catch { return text; }
  const parts: string[] = [];
  let depth = 0, before = "";
  const line = () => `\n${"  ".repeat(Math.min(depth, DEEPEST))}`;
  for (const [token] of text.matchAll(TOKEN)) {
    const opens = before === "{" || before === "[", closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    if (closes ? !opens : opens || before === ",") parts.push(line());
    parts.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return parts.join("");
}
// Parsed, but whole numbers that a script cannot hold are texts.
export function exact(text: string): unknown {
  return JSON.parse(text.replace(TOKEN, (token) => (/^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token)));
}
