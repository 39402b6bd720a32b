// What changed between two samples of the cluster, in words: a failover as it happens. No IO.
export interface Sample {
  at_ms: number; level: string; alerts: { text: string }[];
  brokers: { node_id: number; state: string; partitions_led?: unknown }[]; controllers: { node_id: number; state: string }[];
}
export interface Happening { at: number; text: string; bad: boolean }
const MOST = 200;
const GOOD = ["ok", "active", "standby"];

export function happened(before: Sample, now: Sample): Happening[] {
  const found: Happening[] = [];
  const note = (text: string, bad = false) => found.push({ at: now.at_ms, text, bad });
  const old = (list: { node_id: number; state: string }[], id: number) => list.find((each) => each.node_id === id);
  for (const kind of ["controller", "broker"] as const) {
    const key = `${kind}s` as const;
    for (const each of now[key]) {
      const was = old(before[key], each.node_id)?.state ?? "unknown";
      if (was !== each.state) note(`${kind} ${each.node_id}: ${was}, now ${each.state}`, !GOOD.includes(each.state));
    }
  }
  for (const each of now.brokers) {
    const was = before.brokers.find((one) => one.node_id === each.node_id)?.partitions_led, is = each.partitions_led;
    if (typeof was === "number" && typeof is === "number" && was !== is) note(`broker ${each.node_id} leads ${is} partitions, before ${was}`);
  }
  // The number of partitions that an alert begins with may change: that is no other alert.
  const kindOf = (text: string) => text.replace(/^[\d,]+ /, "");
  const has = (sample: Sample, text: string) => sample.alerts.some((each) => kindOf(each.text) === kindOf(text));
  for (const { text } of now.alerts) if (!has(before, text)) note(text, true);
  for (const { text } of before.alerts) if (!has(now, text)) note(`no longer: ${kindOf(text)}`);
  return found;
}
// What the next sample is compared with: of a broker that does not answer, what was known last.
export function known(before: Sample | null, now: Sample): Sample {
  const last = (id: number) => before?.brokers.find((each) => each.node_id === id)?.partitions_led ?? null;
  return { ...now, brokers: now.brokers.map((each) => ({ ...each, partitions_led: each.partitions_led ?? last(each.node_id) })) };
}
export const remembered = (before: Happening[], more: Happening[]) => [...more.reverse(), ...before].slice(0, MOST);
