// Web worker: reads a topic as an Arrow stream, decodes and filters it, and posts bounded packages of rows.
import { RecordBatchReader, type RecordBatch } from "apache-arrow";
import { decoded, SHOWN } from "./bytes";
import { wants, type Filter } from "./filter";

export interface Row { partition: number; offset: string; at: number; key: string | null; value: string | null; bytes: number; kind: string; cut: boolean }
export interface Job { url: string; token: string; filter: Filter; most: number; whole?: boolean }
const PACKAGE = 2_000;
const stop = new AbortController();

type Header = { key: string; value: Uint8Array | null };
function headersAt(column: { get(index: number): unknown } | null, index: number): [string, string | null][] {
  const list = column?.get(index) as Iterable<Header> | null | undefined;
  return Array.from(list ?? [], (one) => [one.key, decoded(one.value).shown]);
}
function rowsOf(batch: RecordBatch, filter: Filter): Row[] {
  const column = (name: string) => batch.getChild(name)!;
  const [partitions, offsets, times, keys, values] = ["partition", "offset", "timestamp", "key", "value"].map(column);
  const headers = filter.place === "header" ? batch.getChild("headers") : null, wanted = wants(filter);
  const found: Row[] = [];
  for (let index = 0; index < batch.numRows; index += 1) {
    const data = values!.get(index) as Uint8Array | null;
    const value = decoded(data), key = decoded(keys!.get(index) as Uint8Array | null);
    if (!wanted({ key: key.shown, value: value.shown, headers: headersAt(headers, index) })) continue;
    const size = data?.length ?? 0;
    found.push({ partition: Number(partitions!.get(index)), offset: String(offsets!.get(index)), at: Number(times!.get(index)),
      key: key.shown, value: value.shown, bytes: size, kind: value.kind, cut: size > SHOWN });
  }
  return found;
}
async function run(job: Job): Promise<void> {
  const headers: Record<string, string> = job.token ? { Authorization: `Bearer ${job.token}` } : {};
  const answer = await fetch(job.url, { headers, signal: stop.signal });
  if (!answer.ok) {
    const body = await answer.json().catch(() => null);
    postMessage({ error: body?.error?.message ?? `The answer was ${answer.status}.` });
    return;
  }
  let seen = 0, matching = 0;
  const reader = await RecordBatchReader.from(answer.body as unknown as AsyncIterable<Uint8Array>);
  await reader.open();
  for await (const batch of reader as AsyncIterable<RecordBatch>) {
    if (job.whole && batch.numRows) { // One record: its bytes, for a download.
      postMessage({ bytes: (batch.getChild("value")!.get(0) as Uint8Array | null)?.slice() ?? new Uint8Array() });
      return;
    }
    seen += batch.numRows;
    const rows = rowsOf(batch, job.filter);
    matching += rows.length;
    for (let at = 0; at < rows.length; at += PACKAGE) postMessage({ rows: rows.slice(at, at + PACKAGE), seen });
    if (!rows.length) postMessage({ rows: [], seen });
    if (job.most && matching >= job.most) break;
  }
  stop.abort();
  postMessage({ done: true, seen });
}
addEventListener("message", (event: MessageEvent<Job>) => {
  run(event.data).catch((error: unknown) => postMessage({ error: error instanceof Error ? error.message : String(error) }));
});
