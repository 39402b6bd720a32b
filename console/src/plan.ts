// A reset of a group's offsets: what it would change, before anything is sent. No IO.
export interface Place {
  topic: string; partition: number;
  committed: number | null; // null: nothing is committed.
  start: number; end: number; found: number; // `found`: the offset of the wanted time, where one is wanted.
}
export type Wish = { to: "earliest" | "latest" | "time" } | { to: "offset"; offset: number } | { to: "shift"; by: number };
export interface Step { topic: string; partition: number; before: number | null; after: number; lag: number }

// The same rules as `raftlog groups reset-offsets`: a new offset lies within the log.
export function planned(places: Place[], wish: Wish): Step[] {
  const steps: Step[] = [];
  for (const one of places) {
    const wanted = target(one, wish);
    if (wanted === null) continue;
    const after = Math.min(Math.max(wanted, one.start), one.end);
    steps.push({ topic: one.topic, partition: one.partition, before: one.committed, after, lag: one.end - after });
  }
  return steps;
}
function target(one: Place, wish: Wish): number | null {
  switch (wish.to) {
    case "earliest": return one.start;
    case "latest": return one.end;
    case "time": return one.found;
    case "offset": return wish.offset;
    case "shift": return one.committed === null ? null : one.committed + wish.by;
  }
}
export const changes = (steps: Step[]) => steps.filter((one) => one.before !== one.after);
export function lagOf(one: { committed: number | null; start: number; end: number }): number | null {
  return one.committed === null || one.end < 0 ? null : Math.max(0, one.end - Math.max(one.committed, one.start));
}
// The lag of all rows; of those with an error it is unknown, so that all have at least these records.
export function lagOfAll(rows: (Place & { error: string })[]): { records: number; unknown: number } {
  const known = rows.filter((one) => !one.error);
  return { records: known.reduce((sum, one) => sum + (lagOf(one) ?? 0), 0), unknown: rows.length - known.length };
}
