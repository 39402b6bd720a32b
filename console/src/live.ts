// The state of the cluster, from one event stream that all pages share.
import { signal } from "@preact/signals";
import { ApiError, mustLogIn, readEvents } from "./api";
import { happened, known, remembered, type Happening, type Sample } from "./happenings";

export interface Node { node_id: number; state: string; error: string; [name: string]: number | string | null }
export interface Cluster {
  at_ms: number; broker_id: number; metadata_offset: number; cluster_id: string; level: "healthy" | "warning" | "critical";
  alerts: { text: string; advice: string }[]; bytes_in_per_s: number | null; bytes_out_per_s: number | null;
  records_in_per_s: number | null; records_out_per_s: number | null; requests_per_s: number | null;
  controllers: Node[]; brokers: Node[]; groups: { group: string; lag_records: number }[];
  topics: { topic: string; records_in_per_s: number; bytes_in_per_s: number; bytes_out_per_s: number }[];
}
export const cluster = signal<Cluster | null>(null);
export const history = signal<number[][]>([]);
export const trouble = signal(""), refusal = signal("");
// Renews lists while no stream does.
const beat = signal(0);
export const renewal = () => `${cluster.value?.metadata_offset} ${beat.value}`;
// The time at the broker: that of its last event, and what has passed since then.
export const clusterTime = () => Date.now() + ahead;
export const happenings = signal<Happening[]>([]);
const SILENCE_MS = 10_000, WAIT_MS = 2_000, BEAT_MS = 10_000;
let running = false, ahead = 0, baseline: Sample | null = null;
setInterval(() => { if (!document.hidden && (!cluster.value || trouble.value)) beat.value += 1; }, BEAT_MS);

function received(name: string, data: string): void {
  trouble.value = refusal.value = "";
  if (name === "history") { history.value = JSON.parse(data); return; }
  const now: Cluster = JSON.parse(data);
  if (!baseline || baseline.at_ms < now.at_ms) {
    const more = baseline ? happened(baseline, now) : [];
    if (more.length) happenings.value = remembered(happenings.value, more);
    baseline = known(baseline, now);
  }
  ahead = now.at_ms - Date.now();
  cluster.value = now;
  if (now.bytes_in_per_s === null || history.value.at(-1)?.[0] === now.at_ms) return;
  const sample = [now.at_ms, now.bytes_in_per_s, now.bytes_out_per_s ?? 0, now.records_in_per_s ?? 0, now.records_out_per_s ?? 0];
  history.value = [...history.value.slice(-299), sample];
}
// One stream. It ends when the page is hidden, as a browser has six connections to a broker for all its tabs, or
// when no event comes for a while: a broker sends one every two seconds.
async function listen(): Promise<void> {
  const stop = new AbortController(), hide = () => { if (document.hidden) stop.abort(); };
  const silent = () => { trouble.value = "This broker has sent nothing for 10 s: what is shown may be old. The page connects again."; stop.abort(); };
  let timer = setTimeout(silent, SILENCE_MS);
  document.addEventListener("visibilitychange", hide);
  try {
    await readEvents("/console/api/events", stop.signal, (name, data) => {
      clearTimeout(timer);
      timer = setTimeout(silent, SILENCE_MS);
      received(name, data);
    });
    trouble.value = "The connection to this broker has ended. The page connects again.";
  } catch (error) { if (!stop.signal.aborted) throw error; } finally {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", hide);
  }
}
async function visible(): Promise<void> {
  while (document.hidden) await new Promise((wake) => document.addEventListener("visibilitychange", wake, { once: true }));
}
export async function follow(): Promise<void> {
  if (running) return;
  running = true;
  for (;;) {
    await visible();
    try { await listen(); } catch (error) {
      const status = error instanceof ApiError ? error.status : 0;
      if (status === 403) { refusal.value = "You may not describe the cluster, so its state is not shown."; cluster.value = null; trouble.value = ""; }
      else trouble.value = status ? (error as Error).message : "This broker does not answer, so what is shown may be old. Open the console at another broker, or wait.";
      if (status === 403 || mustLogIn.value) { running = false; return; }
    }
    if (!document.hidden) await new Promise((wake) => setTimeout(wake, WAIT_MS));
  }
}
