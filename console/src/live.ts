// The state of the cluster, from one event stream that all pages share.
import { signal } from "@preact/signals";
import { ApiError, readEvents } from "./api";
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
export const trouble = signal("");
export const happenings = signal<Happening[]>([]);
let running = false, baseline: Sample | null = null;

export async function follow(): Promise<void> {
  if (running) return;
  running = true;
  for (;;) {
    try {
      await readEvents("/console/api/events", new AbortController().signal, (name, data) => {
        trouble.value = "";
        if (name === "history") { history.value = JSON.parse(data); return; }
        const now: Cluster = JSON.parse(data);
        if (!baseline || baseline.at_ms < now.at_ms) {
          const more = baseline ? happened(baseline, now) : [];
          if (more.length) happenings.value = remembered(happenings.value, more);
          baseline = known(baseline, now);
        }
        cluster.value = now;
        if (now.bytes_in_per_s === null || history.value.at(-1)?.[0] === now.at_ms) return;
        const sample = [now.at_ms, now.bytes_in_per_s, now.bytes_out_per_s ?? 0, now.records_in_per_s ?? 0, now.records_out_per_s ?? 0];
        history.value = [...history.value.slice(-299), sample];
      });
      trouble.value = "The connection to this broker has ended. The page connects again.";
    } catch (error) {
      const status = error instanceof ApiError ? error.status : 0;
      trouble.value = status === 403 ? "You may not describe the cluster, so its state is not shown."
        : status ? (error as Error).message : "This broker does not answer. Open the console at another broker, or wait.";
      if (status === 401 || status === 403) { running = false; return; }
    }
    await new Promise((wake) => setTimeout(wake, 2_000));
  }
}
