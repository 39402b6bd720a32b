import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { ApiError, ask, rightsOn, send, token } from "./api";
import type { Job, Row } from "./decoder";
import type { Filter } from "./filter";
import { headersOf } from "./headers";
import { indented } from "./json";
import { copy, link, offer, Problem } from "./parts";
import { fileName, number, printable, size, visible, when } from "./text";

declare const WORKER: string;
const KEPT = 20_000, LINE = 24, KEPT_CHARACTERS = 64e6, DRAWN = 60, PAGE_LINES = 20;
const urlOf = (topic: string, query: URLSearchParams) => `/v1/topics/${encodeURIComponent(topic)}/records?${query}`;
interface Message { rows?: Row[]; seen?: number; error?: string; done?: boolean; bytes?: Uint8Array<ArrayBuffer> }

// Why the worker ended. The name of its script changes with each release.
const failing = () => send(`/console/${WORKER}`).then(() => "The records cannot be decoded in this browser.",
  (failed: ApiError) => (failed.status === 404 ? "The broker was upgraded: reload the page." : failed.message));

export function RecordsPage({ topic }: { topic: string }) {
  const rows = useRef<Row[]>([]), held = useRef(0), worker = useRef<Worker | null>(null), list = useRef<HTMLDivElement>(null);
  const version = useSignal(0), top = useSignal(0), seen = useSignal(0), error = useSignal(""), chosen = useSignal<Row | null>(null);
  const state = useSignal<"idle" | "reading" | "tailing">("idle"), rights = useSignal<string[]>([]);
  const stop = () => { worker.current?.terminate(); worker.current = null; state.value = "idle"; };
  useEffect(() => stop, []);
  useEffect(() => { rightsOn("topic", topic).then((found) => { rights.value = found; }, () => undefined); }, []);
  const add = (more: Row[]) => {
    rows.current = rows.current.concat(more);
    for (const each of more) held.current += (each.value?.length ?? 0) + (each.key?.length ?? 0);
    let cut = Math.max(0, rows.current.length - KEPT);
    for (let at = 0; held.current > KEPT_CHARACTERS && at < rows.current.length; at += 1) {
      if (at >= cut) cut = at + 1;
      held.current -= (rows.current[at]!.value?.length ?? 0) + (rows.current[at]!.key?.length ?? 0);
    }
    if (cut) rows.current = rows.current.slice(cut);
    held.current = rows.current.reduce((sum, each) => sum + (each.value?.length ?? 0) + (each.key?.length ?? 0), 0);
  };
  const start = (event: SubmitEvent) => {
    event.preventDefault();
    stop();
    rows.current = []; held.current = 0; seen.value = 0; error.value = ""; chosen.value = null; top.value = 0;
    const given = new FormData(event.target as HTMLFormElement), tail = (event.submitter as HTMLButtonElement | null)?.name === "tail";
    const filter: Filter = { place: String(given.get("place")) as Filter["place"], text: String(given.get("filter") ?? "") };
    const columns = `partition,offset,timestamp,key,value${filter.text && filter.place === "header" ? ",headers" : ""}`;
    const query = new URLSearchParams({ format: "arrow", columns, isolation: "read_committed" });
    if (given.get("partitions")) query.set("partitions", String(given.get("partitions")));
    query.set("from", tail ? "latest" : String(given.get("from") || "earliest"));
    if (tail) query.set("follow", "true");
    state.value = tail ? "tailing" : "reading";
    const own = worker.current = new Worker(`/console/${WORKER}`, { type: "module" });
    let drawn = false, latest = 0;
    own.onerror = () => { if (own === worker.current) { stop(); void failing().then((why) => { error.value = why; }); } };
    own.onmessage = ({ data }: MessageEvent<Message>) => {
      if (own !== worker.current) return;
      if (data.error) { error.value = data.error; stop(); return; }
      if (data.rows?.length) add(data.rows);
      latest = data.seen ?? latest;
      if (!drawn) requestAnimationFrame(() => {
        drawn = false; version.value += 1; seen.value = latest;
      });
      drawn = true;
      if (data.done) { seen.value = latest; version.value += 1; stop(); }
    };
    own.postMessage({ url: urlOf(topic, query), token: token.value, filter, most: tail ? 0 : KEPT } satisfies Job);
  };
  const move = (event: KeyboardEvent) => {
    const at = chosen.value ? rows.current.indexOf(chosen.value) : -1, last = rows.current.length - 1;
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + PAGE_LINES, PageUp: at - PAGE_LINES, Home: 0, End: last }[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    const index = Math.min(Math.max(0, next), last), view = list.current!;
    chosen.value = rows.current[index]!;
    if (index * LINE < view.scrollTop) view.scrollTop = index * LINE;
    if ((index + 2) * LINE > view.scrollTop + view.clientHeight) view.scrollTop = (index + 2) * LINE - view.clientHeight;
  };
  const download = () => offer(`${fileName(topic)}.ndjson`, rows.current.map((each) => `${JSON.stringify(plain(each))}\n`), "application/x-ndjson");
  useLayoutEffect(() => { if (state.value === "tailing" && list.current) list.current.scrollTop = rows.current.length * LINE; }, [version.value]); // After the new height.
  const first = Math.max(0, Math.floor(top.value / LINE) - 10), shown = rows.current.slice(first, first + DRAWN);
  const idOf = (each: Row) => `record-${each.partition}-${each.offset}`;
  return <><h1>Records of <a href={link("topics", topic)}>{topic}</a></h1>
    <form onSubmit={start}>
      <label>From<input name="from" placeholder="earliest, a time, 0:1500" title="earliest, latest, a time as 2026-01-31T12:00Z, or partition:offset" /></label>
      <label>Partitions<input name="partitions" placeholder="all" size={8} /></label>
      <label>Only with the text<input name="filter" placeholder="a text, or order.city=Paris" /></label>
      <label>In<select name="place"><option value="any">key or value</option><option value="key">key</option><option value="value">value</option>
        <option value="header">headers</option><option value="json">a member of JSON</option></select></label>
      <button type="submit" name="read">Read</button><button type="submit" name="tail">Live tail</button>
      <button type="button" onClick={stop} disabled={state.value === "idle"}>Stop</button>
      <button type="button" onClick={download} disabled={rows.current.length === 0}>Download these rows</button></form>
    <Problem text={error.value} />
    <p role="status" id="state">{state.value === "idle" ? "" : `${state.value}: `}{number(seen.value)} records read, {number(rows.current.length)} shown
      {rows.current.length >= KEPT && ` (the newest ${number(KEPT)} are kept)`}</p>
    <div class="records-head" aria-hidden="true"><span>Part.</span><span>Offset</span><span>Time (UTC)</span><span>Key</span><span>Value</span></div>
    <div class="records" ref={list} tabIndex={0} role="listbox" aria-label="Records" aria-activedescendant={chosen.value && shown.includes(chosen.value) ? idOf(chosen.value) : undefined}
      onKeyDown={move} onScroll={(event) => { top.value = event.currentTarget.scrollTop; }}>
      <div role="presentation" ref={(inner) => { if (inner) inner.style.height = `${rows.current.length * LINE}px`; }} />
      {shown.map((each, index) => <div class="line" key={`${each.partition}:${each.offset}`} id={idOf(each)} role="option" aria-selected={chosen.value === each}
        ref={(line) => { if (line) line.style.top = `${(first + index) * LINE}px`; }} onClick={() => { chosen.value = each; }}>
        <span>{each.partition}</span><span>{each.offset}</span><span>{when(each.at)}</span><span class={each.key === null ? "dim" : ""}>{visible(each.key)}</span><span class={each.value === null ? "dim" : ""}>{visible(each.value)}</span></div>)}
    </div>{chosen.value && <Detail row={chosen.value} topic={topic} key={idOf(chosen.value)} />}
    <Produce topic={topic} may={rights.value.includes("write")} /></>;
}
const plain = (row: Row) => ({ partition: row.partition, offset: Number(row.offset), timestamp: row.at, key: row.key, value: row.value,
  ...(row.kind === "hex" ? { value_shown_as: "hex" } : {}), ...(row.cut ? { value_is_cut: true, value_bytes: row.bytes } : {}) });

interface Header { key: string; value: string | null }
function Detail({ row, topic }: { row: Row; topic: string }) {
  const headers = useSignal<Header[] | null>(null), error = useSignal(""), told = useSignal("");
  const one = { partitions: String(row.partition), from: `${row.partition}:${row.offset}`, max_records: "1" };
  useEffect(() => {
    ask<{ headers: Header[] }[]>(urlOf(topic, new URLSearchParams({ ...one, format: "json", columns: "headers" }))).then(
      ([found]) => { headers.value = found?.headers ?? []; }, (failed: Error) => { error.value = failed.message; });
  }, []);
  const value = row.kind === "json" && !row.cut ? indented(row.value!) : row.value;
  const take = (what: string, text: string) => copy(text).then(() => { told.value = `The ${what} is copied.`; }, () => { error.value = "The browser does not allow copying."; });
  const download = () => {
    const worker = new Worker(`/console/${WORKER}`, { type: "module" });
    worker.onerror = () => { worker.terminate(); void failing().then((why) => { error.value = why; }); };
    worker.onmessage = ({ data }: MessageEvent<Message>) => {
      if (data.bytes) offer(fileName(topic, row.partition, row.offset), [data.bytes], "application/octet-stream");
      if (data.error) error.value = data.error;
      worker.terminate();
    };
    const query = new URLSearchParams({ ...one, format: "arrow", columns: "value" });
    worker.postMessage({ url: urlOf(topic, query), token: token.value, filter: { place: "any", text: "" }, most: 1, whole: true } satisfies Job);
  };
  return <section aria-label="The selected record"><h2>Partition {row.partition}, offset {row.offset}</h2>
    <p class="dim">{when(row.at)}, {size(row.bytes)}, {row.kind}{row.cut && ", the first part"}</p>
    <div class="row"><button type="button" disabled={row.key === null} onClick={() => void take("key", row.key!)}>Copy the key</button>
      <button type="button" disabled={row.value === null} onClick={() => void take(row.cut ? "first part of the value" : "value", row.value!)}>Copy {row.cut ? "the first part" : "the value"}</button>
      <button type="button" disabled={row.value === null} onClick={download}>Download the value</button><span role="status">{told.value}</span></div><Problem text={error.value} />
    <p>Key: <code>{visible(row.key, 2_000)}</code></p>
    {!!headers.value?.length && <dl class="headers">{headers.value.slice(0, 200).map((each, index) => <div key={index}><dt>{visible(each.key)}</dt><dd>{visible(each.value, 2_000)}</dd></div>)}</dl>}
    <pre tabIndex={0} role="region" aria-label="The value" id="value">{value === null ? "(null)" : printable(value)}</pre></section>;
}
function Produce({ topic, may }: { topic: string; may: boolean }) {
  const error = useSignal(""), told = useSignal(""), busy = useSignal(false), none = useSignal(false);
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.target as HTMLFormElement), text = (name: string) => String(given.get(name) ?? "");
    busy.value = true; error.value = told.value = "";
    try {
      const record: Record<string, unknown> = { value: none.value ? null : text("value"), headers: headersOf(text("headers")) };
      if (text("key") !== "") record.key = text("key");
      if (text("encoding") === "base64") record.value_encoding = "base64";
      if (text("partition") !== "") record.partition = Number(text("partition"));
      const { offsets: [place] } = await ask<{ offsets: { partition: number; offset: number }[] }>(`/v1/topics/${encodeURIComponent(topic)}/records`, "POST", { records: [record] });
      told.value = `Stored in partition ${place!.partition} at offset ${place!.offset}.`;
    } catch (failed) { error.value = (failed as Error).message; }
    busy.value = false;
  };
  return <details class="produce"><summary>Produce a record</summary>{!may && <p class="dim">You may not write to this topic.</p>}
    <form onSubmit={send} aria-label="Produce a record"><label>Key<input name="key" placeholder="none" disabled={!may} autocomplete="off" /></label>
      <label>Partition<input name="partition" type="number" min="0" placeholder="by the key" disabled={!may} /></label>
      <label>The value is<select name="encoding" disabled={!may}><option value="text">text</option><option value="base64">bytes as base64</option></select></label>
      <label class="check"><input type="checkbox" disabled={!may} onChange={(event) => { none.value = event.currentTarget.checked; }} /> No value (a tombstone)</label>
      <label class="whole">Value<textarea name="value" rows={4} disabled={!may || none.value} spellcheck={false} /></label>
      <label class="whole">Headers, one a line, as in "name: value"<textarea name="headers" rows={2} disabled={!may} spellcheck={false} /></label>
      <button type="submit" disabled={!may || busy.value}>Produce</button></form><Problem text={error.value} /><p role="status">{told.value}</p></details>;
}
