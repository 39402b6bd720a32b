// Parts that pages share: tables, lists in pages, confirmations, charts.
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { ask } from "./api";
import { number, when } from "./text";

export const PAGE = 50;
export const link = (...parts: (string | number)[]) => `#/${parts.map((each) => encodeURIComponent(each)).join("/")}`;

export function Table({ label, heads, children }: { label: string; heads: string[]; children: ComponentChildren }) {
  // A head that begins with a # is that of a column of numbers.
  return <div class="scroll" tabIndex={0} role="region" aria-label={label}><table><thead><tr>{heads.map((each) => each === "" ? <td />
    : <th scope="col" class={each.startsWith("#") ? "n" : ""}>{each.replace(/^#/, "")}</th>)}</tr></thead><tbody>{children}</tbody></table></div>;
}
export const Problem = ({ text }: { text: string }) => <p role="alert" class="error">{text}</p>;

export interface Listing<T> { rows: T[]; matching: number; next: string }
export interface Pages<T> {
  found: Signal<Listing<T> | null>; error: Signal<string>; contains: Signal<string>;
  again: () => void; forth: () => void; back: () => void; starts: Signal<string[]>;
}
// One page of a listing of the API. Pages before it are remembered by the name that they begin after.
export function usePages<T>(path: string, key: string, query: Record<string, string> = {}, renew: unknown = 0): Pages<T> {
  const found = useSignal<Listing<T> | null>(null), error = useSignal(""), contains = useSignal(""), starts = useSignal<string[]>([""]);
  const asked = useRef<{ query: string; stop: AbortController } | null>(null), begun = useRef(false), more = JSON.stringify(query);
  const again = () => {
    const wanted = new URLSearchParams({ ...query, limit: String(PAGE) }), after = starts.value.at(-1)!;
    if (contains.value) wanted.set("contains", contains.value);
    if (after) wanted.set("after", after);
    const own = { query: String(wanted), stop: new AbortController() };
    asked.current?.stop.abort();
    asked.current = own;
    ask<Record<string, unknown>>(`${path}?${own.query}`, "GET", undefined, own.stop.signal).then((answer) => {
      if (own !== asked.current) return; // A later request is under way.
      found.value = { rows: answer[key] as T[], matching: Number(answer.matching), next: String(answer.next ?? "") };
      error.value = "";
    }, (failed: Error) => { if (own === asked.current) error.value = failed.message; }).finally(() => { if (own === asked.current) asked.current = null; });
  };
  useEffect(() => { if (starts.value.length > 1) starts.value = [""]; }, [contains.value, more]);
  useEffect(() => {
    const timer = setTimeout(again, contains.value ? 200 : 0);
    return () => clearTimeout(timer);
  }, [contains.value, more, starts.value]);
  useEffect(() => {
    if (begun.current && !asked.current) again(); // An answer may take longer than the time between two renewals.
    begun.current = true;
  }, [renew]);
  useEffect(() => () => { asked.current?.stop.abort(); asked.current = null; }, []);
  return { found, error, contains, again, starts,
    forth: () => { if (found.value?.next) starts.value = [...starts.value, found.value.next]; },
    back: () => { if (starts.value.length > 1) starts.value = starts.value.slice(0, -1); } };
}
export function Pager<T>({ pages, what }: { pages: Pages<T>; what: string }) {
  const found = pages.found.value, page = pages.starts.value.length;
  const first = (page - 1) * PAGE + 1, last = first - 1 + (found?.rows.length ?? 0);
  return <div class="row pager">
    <label>Filter<input name="filter" type="search" onInput={(event) => { pages.contains.value = event.currentTarget.value; }} /></label>
    <span role="status">{!found ? "Reading." : found.matching === 0 ? `No ${what}.` : `${number(first)} to ${number(last)} of ${number(found.matching)} ${what}`}</span>
    {(page > 1 || found?.next) && <><button type="button" disabled={page === 1} onClick={pages.back}>Earlier</button>
      <button type="button" disabled={!found?.next} onClick={pages.forth}>More</button></>}
    <Problem text={pages.error.value} /></div>;
}
// A list that the page has whole, of which it draws one part. With another `key` it begins again.
export function useParts<T>(rows: T[], each = 200, key: unknown = 0): { shown: T[]; pager: ComponentChildren } {
  const at = useSignal(0), last = Math.max(0, Math.ceil(rows.length / each) - 1), page = Math.min(at.value, last);
  useEffect(() => { at.value = 0; }, [key]);
  const pager = rows.length > each ? <div class="row pager"><span role="status">{number(page * each + 1)} to {number(Math.min(rows.length, (page + 1) * each))} of {number(rows.length)}</span>
    <button type="button" disabled={page === 0} onClick={() => { at.value = page - 1; }}>Earlier</button>
    <button type="button" disabled={page === last} onClick={() => { at.value = page + 1; }}>More</button></div> : null;
  return { shown: rows.slice(page * each, (page + 1) * each), pager };
}
interface Confirmed { name: string; what: string; text: string; allowed: boolean; why: string; act: () => Promise<unknown>; done?: () => void }
// A change that cannot be undone: the name must be typed.
export function Confirm({ name, what, text, allowed, why, act, done }: Confirmed) {
  const typed = useSignal(""), error = useSignal(""), busy = useSignal(false);
  const submit = (event: Event) => {
    event.preventDefault();
    busy.value = true; error.value = "";
    act().then(() => { typed.value = ""; done?.(); }, (failed: Error) => { error.value = failed.message; }).finally(() => { busy.value = false; });
  };
  return <form onSubmit={submit}><label>{what}<input name="confirm" autocomplete="off" spellcheck={false} value={typed.value} disabled={!allowed}
    onInput={(event) => { typed.value = event.currentTarget.value; }} /></label>
    <button class="danger" type="submit" disabled={!allowed || busy.value || typed.value !== name} title={allowed ? "" : why}>{text}</button>
    {!allowed && <span class="dim">{why}</span>}<Problem text={error.value} /></form>;
}
const COLORS = ["#2f81f7", "#d27d1c"];
// Points of time (ms) with values; the axis has at least a minute, so that it shows no parts of a second.
export function Chart({ title, names, data, of }: { title: string; names: string[]; data: number[][]; of: (value: number) => string }) {
  const holder = useRef<HTMLDivElement>(null), chart = useRef<uPlot | null>(null);
  const points = data.length === 1 ? [[data[0]![0]! - 1_000, ...data[0]!.slice(1)], data[0]!] : data; // One point has no axis.
  const columns = [points.map((one) => one[0]! / 1000), ...names.map((_, at) => points.map((one) => one[at + 1] ?? 0))] as uPlot.AlignedData;
  useEffect(() => {
    const axis = { stroke: getComputedStyle(document.body).color, grid: { stroke: "rgba(128, 128, 128, .25)", width: 1 }, ticks: { show: false } };
    const span = (_: uPlot, from: number, to: number): uPlot.Range.MinMax => [Math.min(from, to - 60), to];
    chart.current = new uPlot({ width: holder.current!.clientWidth, height: 150, padding: [null, 30, null, null], cursor: { show: false }, legend: { show: false },
      scales: { x: { range: span }, y: { range: (_, __, most) => [0, Math.max(10, (most ?? 0) * 1.1)] } },
      series: [{}, ...names.map((_, at) => ({ stroke: COLORS[at]!, width: 2, points: { show: false } }))],
      axes: [{ ...axis, size: 28, space: 90, incrs: [5, 10, 15, 30, 60, 120, 300, 600], values: (_: uPlot, found: number[]) => found.map((each) => when(each * 1000).slice(11, 19)) },
        { ...axis, size: 70, values: (_: uPlot, found: number[]) => found.map((each) => of(each)) }] }, columns, holder.current!);
    const fit = new ResizeObserver(() => { if (holder.current) chart.current?.setSize({ width: holder.current.clientWidth, height: 150 }); });
    fit.observe(holder.current!);
    return () => { fit.disconnect(); chart.current?.destroy(); };
  }, []);
  useEffect(() => chart.current?.setData(columns), [data]);
  const now = names.map((name, at) => `${name}${names.length > 1 ? ` (${["blue", "orange"][at]})` : ""} ${of(data.at(-1)?.[at + 1] ?? 0)}`).join(", ");
  return <figure class="chart"><figcaption>{title} <span class="dim">{now}</span></figcaption>
    <div ref={holder} role="img" aria-label={`${title}: ${now}`} /></figure>;
}
// Repeats a request while the page is open and visible, but not before the last one has ended.
export function useRepeated(load: () => unknown, ms: number, on: unknown[]): void {
  useEffect(() => {
    let busy = false;
    const round = async () => {
      if (busy) return;
      busy = true;
      try { await load(); } finally { busy = false; }
    };
    void round();
    const timer = setInterval(() => { if (!document.hidden) void round(); }, ms);
    return () => clearInterval(timer);
  }, on);
}
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // Without TLS, browsers have no clipboard for scripts.
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
export function offer(name: string, parts: BlobPart[], type: string): void {
  const url = URL.createObjectURL(new Blob(parts, { type })), anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
