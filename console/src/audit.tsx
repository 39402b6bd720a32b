// The audit logs of all brokers, newest lines first.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ask, session } from "./api";
import { begun, grown, lacking, merged, MOST, type Answer, type Row, type Source } from "./audited";
import { indented } from "./json";
import { Problem, Table, useParts } from "./parts";
import { number, printable, timeOf, visible, when } from "./text";

const LINES = "100", MOST_BROKERS = 50;
const OUTCOMES: [string, string][] = [["all", "all"], ["allowed", "allowed"], ["denied", "denied"], ["would_deny", "would be denied"], ["failed", "failed"], ["unknown", "unknown"]];
const EVENTS: [string, string][] = [["all", "all"], ["change", "changes"], ["denial", "denials"], ["login", "logins"], ["use", "reads and writes"], ["lost", "lost lines"]];
const options = (some: [string, string][]) => some.map(([value, text]) => <option value={value} key={value}>{text}</option>);
const outcomeClass = (outcome: string) => (outcome === "allowed" ? "ok" : ["denied", "failed"].includes(outcome) ? "error" : outcome ? "warning" : "");

export function AuditPage() {
  const may = session.value?.cluster.includes("alter") ?? false;
  const sources = useSignal<Source[]>([]), error = useSignal(""), busy = useSignal(0), chosen = useSignal<Row | null>(null), query = useRef(new URLSearchParams({ limit: LINES })), round = useRef(0), detail = useRef<HTMLElement>(null);
  const one = async (source: Source, own: number) => {
    busy.value += 1;
    const wanted = new URLSearchParams(query.current);
    if (source.next) wanted.set("before", source.next);
    const put = (next: Source) => { if (own === round.current) sources.value = sources.value.map((each) => (each.broker === next.broker ? next : each)); };
    try { put(grown(source, await ask<Answer>(`/v1/brokers/${source.broker}/audit?${wanted}`))); } catch (failed) { put({ ...source, error: (failed as Error).message }); } finally { busy.value -= 1; }
  };
  const read = async () => {
    const own = round.current += 1;
    error.value = ""; chosen.value = null; busy.value += 1;
    try {
      const { brokers } = await ask<{ brokers: { broker_id: number }[] }>("/v1/brokers?consistency=local");
      if (own !== round.current) return;
      sources.value = brokers.slice(0, MOST_BROKERS).map((each) => begun(each.broker_id));
      if (brokers.length > MOST_BROKERS) error.value = `The first ${MOST_BROKERS} of ${number(brokers.length)} brokers are read.`;
      await Promise.all(sources.value.map((each) => one(each, own)));
    } catch (failed) { error.value = (failed as Error).message; } finally { busy.value -= 1; }
  };
  useEffect(() => { if (may) void read(); }, [may]);
  useEffect(() => { detail.current?.scrollIntoView({ block: "nearest" }); }, [chosen.value]);
  const submit = (event: Event) => {
    event.preventDefault();
    const given = new FormData(event.target as HTMLFormElement), wanted = new URLSearchParams({ limit: LINES });
    try {
      for (const [name, value] of [...given].map(([key, text]) => [key, String(text).trim()] as const)) {
        if (value && !(value === "all" && ["outcome", "event"].includes(name))) wanted.set(name, ["since", "until"].includes(name) ? String(timeOf(value)) : value);
      }
      query.current = wanted;
      void read();
    } catch (failed) { error.value = (failed as Error).message; }
  };
  const { rows, waits, reached } = merged(sources.value), parts = useParts(rows, 200, round.current), full = rows.length >= MOST;
  const further = () => { for (const each of sources.value.filter((source) => waits.includes(source.broker))) void one(each, round.current); };
  const why = "You may not alter the cluster, so its audit logs are not shown.";
  return <><h1>Audit log</h1><p class="dim">What senders changed and used, and what was refused, at all brokers. Controllers have files of their own.</p>
    <form onSubmit={submit}><label>Sender<input name="principal" type="search" size={16} disabled={!may} placeholder="a part of User:alice" autocomplete="off" /></label>
      <label>Resource<input name="resource" type="search" size={16} disabled={!may} placeholder="a part of a name" autocomplete="off" /></label>
      <label>Outcome<select name="outcome" disabled={!may}>{options(OUTCOMES)}</select></label><label>Kind<select name="event" disabled={!may}>{options(EVENTS)}</select></label>
      <label>From (UTC)<input name="since" size={16} disabled={!may} placeholder="2026-01-31T12:00" autocomplete="off" /></label><label>Until (UTC)<input name="until" size={16} disabled={!may} placeholder="2026-01-31T13:00" autocomplete="off" /></label>
      <button type="submit" disabled={!may} title={may ? "" : why}>Read</button></form>{!may && <p class="dim">{why}</p>}
    <Problem text={error.value} />{lacking(sources.value).map((words) => <p class="warning" key={words}>{visible(words)}</p>)}
    {may && <p role="status" id="audited">{busy.value > 0 ? "Reading." : `${number(rows.length)} ${rows.length === 1 ? "line" : "lines"}${waits.length ? `, back to ${shownTime(reached)}` : ", and no older ones"}.`}</p>}
    {rows.length > 0 && <Table label="Lines" heads={["Time (UTC)", "Node", "Kind", "Sender", "Address", "What", "On", "Outcome", ""]}>{parts.shown.map((each) => <tr key={`${each.broker}:${each.place}`}>
      <td>{shownTime(each.time)}</td><td>{visible(each.node, 40)}</td><td class={each.event === "unreadable" ? "error" : ""}>{visible(each.event, 40)}</td><td class="wide">{visible(each.principal)}</td><td>{visible(each.address, 60)}</td>
      <td class="wide">{visible(each.operation)}</td><td class="wide">{visible(each.resource)}</td><td class={outcomeClass(each.outcome)}>{visible(each.outcome, 40).replace("would_deny", "would be denied")}</td>
      <td><button type="button" aria-pressed={chosen.value?.broker === each.broker && chosen.value.place === each.place} onClick={() => { chosen.value = each; }}>Details</button></td></tr>)}</Table>}{parts.pager}
    {waits.length > 0 && <div class="row"><button type="button" disabled={busy.value > 0 || full} onClick={further}>Older lines</button>{full && <span class="dim">The page keeps {number(MOST)} lines: choose a time or a filter.</span>}</div>}
    {chosen.value && <section aria-label="The selected line" ref={detail}><h2>Line of broker {chosen.value.broker}</h2>{chosen.value.reason && <p>{visible(chosen.value.reason)}</p>}<pre tabIndex={0} id="audit-line">{printable(indented(chosen.value.line))}</pre></section>}</>;
}
const shownTime = (time: string) => (Number.isNaN(Date.parse(time)) ? visible(time, 40) || "–" : when(Date.parse(time)));
