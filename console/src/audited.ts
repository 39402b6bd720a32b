// Lines of several brokers' audit logs in one order. No IO.
export interface Entry {
  time: string; node: string; event: string; principal: string; address: string; operation: string; resource: string; outcome: string; reason: string; line: string;
}
export interface Answer { broker_id: number; kept: "file" | "log" | "none"; entries: Entry[]; reached: string; next: string }
export interface Source { broker: number; kept: "file" | "log" | "none" | "unknown"; entries: Entry[]; reached: string; next: string; error: string }
export interface Row extends Entry { broker: number; place: number }
export const MOST = 5_000;

export const begun = (broker: number): Source => ({ broker, kept: "unknown", entries: [], reached: "", next: "", error: "" });
export const grown = (one: Source, more: Answer): Source => ({ broker: one.broker, kept: more.kept, entries: [...one.entries, ...more.entries],
  reached: more.reached || one.reached, next: more.next, error: "" });
const parsed = (time: string) => { const at = Date.parse(time); return Number.isNaN(at) ? Infinity : at; };

// Newest first. A broker's lines keep their order. Lines older than those that some broker has not sent yet wait.
export function merged(sources: Source[]): { rows: Row[]; waits: number[]; reached: string } {
  const open = sources.filter((one) => one.next && one.reached);
  const border = open.reduce((most, one) => Math.max(most, parsed(one.reached)), -Infinity);
  const rows = sources.flatMap((one) => {
    let last = Infinity;
    return one.entries.map((entry, place) => {
      last = Math.min(last, parsed(entry.time)); // A damaged line has no time: it stays beside the newer one.
      return { at: last, row: { ...entry, broker: one.broker, place } };
    });
  }).filter((one) => one.at >= border).sort((a, b) => b.at - a.at || 0);
  const waits = sources.filter((one) => one.next && (!one.reached || parsed(one.reached) >= border)).map((one) => one.broker);
  const reached = open.reduce((most, one) => (parsed(one.reached) > parsed(most || "0") ? one.reached : most), "");
  return { rows: rows.map((one) => one.row), waits, reached };
}
// What the sources have, in words: brokers without a log, and those that do not answer.
export function lacking(sources: Source[]): string[] {
  const listed = (some: Source[]) => `Broker${some.length > 1 ? "s" : ""} ${some.map((one) => one.broker).join(", ")}`;
  const none = sources.filter((one) => one.kept === "none"), logs = sources.filter((one) => one.kept === "log");
  const words = sources.filter((one) => one.error).map((one) => `Broker ${one.broker}: ${one.error}`);
  if (logs.length) words.push(`${listed(logs)}: the audit log goes to the broker's own log only. Set security.audit_file to read it here.`);
  if (none.length) words.push(`${none.length === sources.length ? "No broker keeps" : `${listed(none)}: there is no`} an audit log. It needs security.authorizer and security.audit_file.`.replace("there is no an", "there is no"));
  return words;
}
