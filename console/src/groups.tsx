import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { ask, rightsOn } from "./api";
import { cluster, clusterTime, renewal } from "./live";
import { Chart, Confirm, link, Pager, Problem, Table, useParts, usePages, useRepeated } from "./parts";
import { changes, lagOf, lagOfAll, planned, type Place, type Step, type Wish } from "./plan";
import { number, timeOf, visible } from "./text";

interface Listed { group_id: string; phase: string; members: number; coordinator: number; kind: string; lag_records: number }
interface Parts { topic: string; partitions: number[] }
interface Member { member_id: string; instance_id: string | null; client_id: string; client_host: string; member_epoch: number; topics: string[]; pattern: string; assignment: Parts[] }
interface Group { group_id: string; phase: string; epoch: number; assignor: string; coordinator: number; topics: Record<string, number>; members: Member[]; kind: string }
interface Committed { topic: string; partition: number; offset: number; metadata: string; committed_at_ms: number }
interface Found { topic: string; partition: number; offset: number; log_start_offset: number; high_watermark: number; error: { message: string } | null }
const MOST = 10_000, SAMPLES = 300;
const path = (group: string) => `/v1/groups/${encodeURIComponent(group)}`;

export function GroupsPage() {
  const pages = usePages<Listed>("/v1/groups", "groups", {}, `${Math.floor(clusterTime() / 10_000)} ${renewal()}`);
  return <><h1>Groups</h1><Pager pages={pages} what="groups" />
    <Table label="Groups" heads={["Group", "State", "#Members", "#Lag (records)", "#Coordinator", "Protocol"]}>
      {pages.found.value?.rows.map((each) => {
        const lag = each.lag_records >= 0 ? each.lag_records : cluster.value?.groups.find((one) => one.group === each.group_id)?.lag_records;
        return <tr key={each.group_id}><td><a href={link("groups", each.group_id)}>{visible(each.group_id)}</a></td>
          <td class={each.phase === "Stable" ? "ok" : ""}>{each.phase}</td><td class="n">{number(each.members)}</td>
          <td class="n">{number(lag)}</td><td class="n">{each.coordinator}</td><td>{each.kind}</td></tr>;
      })}</Table>
    <p class="dim">A dash: the coordinator has no replica of a topic, so it does not know its end. A group's page shows the lag for each partition.</p></>;
}
async function offsetsOf(parts: Parts[], at = ""): Promise<Found[]> {
  const answer = await ask<{ offsets: Found[] }>(`/v1/offsets${at && `?at=${at}`}`, "POST", { partitions: parts });
  return answer.offsets;
}
function byTopic(rows: { topic: string; partition: number }[]): Parts[] {
  const found = new Map<string, number[]>();
  for (const one of rows) found.set(one.topic, [...(found.get(one.topic) ?? []), one.partition]);
  return [...found].map(([topic, partitions]) => ({ topic, partitions }));
}
export interface Row extends Place { member: string; error: string }
function rowsOf(group: Group, committed: Committed[], ends: Found[]): Row[] {
  const keyOf = (topic: string, partition: number) => JSON.stringify([topic, partition]);
  const offsets = new Map(committed.map((one) => [keyOf(one.topic, one.partition), one.offset]));
  const owners = new Map(group.members.flatMap((member) => member.assignment.flatMap((part) =>
    part.partitions.map((one) => [keyOf(part.topic, one), member.client_id || member.member_id] as const))));
  return ends.map((one) => {
    const key = keyOf(one.topic, one.partition), offset = offsets.get(key) ?? -1;
    return { topic: one.topic, partition: one.partition, committed: offset < 0 ? null : offset, start: one.log_start_offset,
      end: one.high_watermark, found: one.offset, member: owners.get(key) ?? "", error: one.error?.message ?? "" };
  });
}
function partsOf(group: Group, committed: Committed[]): Parts[] {
  const known = new Set(committed.map((one) => JSON.stringify([one.topic, one.partition])));
  const rows = committed.map(({ topic, partition }) => ({ topic, partition }));
  for (const [topic, count] of Object.entries(group.topics)) for (let partition = 0; partition < count && rows.length < MOST; partition += 1)
    if (!known.has(JSON.stringify([topic, partition]))) rows.push({ topic, partition });
  return byTopic(rows.slice(0, MOST));
}
export function GroupPage({ group }: { group: string }) {
  const found = useSignal<Group | null>(null), rows = useSignal<Row[]>([]), lags = useSignal<number[][]>([]);
  const error = useSignal(""), rights = useSignal<string[]>([]), gone = useRef(false);
  const load = async () => {
    if (gone.current) return;
    try {
      const [described, { offsets }] = await Promise.all([ask<Group>(path(group)), ask<{ offsets: Committed[] }>(`${path(group)}/offsets`)]);
      const parts = partsOf(described, offsets), ends = parts.length ? await offsetsOf(parts) : [];
      found.value = described; rows.value = rowsOf(described, offsets, ends); error.value = "";
      lags.value = [...lags.value.slice(1 - SAMPLES), [Date.now(), lagOfAll(rows.value).records]];
    } catch (failed) { if (!gone.current) error.value = (failed as Error).message; }
  };
  useRepeated(load, 5_000, []);
  useRepeated(() => rightsOn("group", group).then((one) => { rights.value = one; }, () => undefined), 60_000, []);
  const seen = found.value, sorted = [...rows.value].sort((a, b) => (lagOf(b) ?? 0) - (lagOf(a) ?? 0) || a.topic.localeCompare(b.topic) || a.partition - b.partition);
  const partitions = useParts(sorted), members = useParts(seen?.members ?? [], 100);
  const { unknown } = lagOfAll(rows.value), least = unknown ? `, at least: that of ${number(unknown)} ${unknown === 1 ? "partition" : "partitions"} is unknown` : "";
  const idle = seen !== null && seen.members.length === 0, mayReset = rights.value.includes("read"), mayDelete = rights.value.includes("delete");
  return <><h1>Group {visible(group)}</h1><Problem text={error.value} />
    {seen && <p><span class={seen.phase === "Stable" ? "ok" : ""}>{seen.phase}</span>, {seen.kind} protocol{seen.assignor && `, ${seen.assignor}`}, epoch {seen.epoch}, coordinated by <a href={link("brokers", seen.coordinator)}>broker {seen.coordinator}</a></p>}
    {seen && <Chart title={`Lag (records)${least}`} names={["lag"]} data={lags.value} of={number} />}
    <h2>Partitions</h2>{seen && rows.value.length === 0 && <p class="dim">It has committed no offset and reads no topic.</p>}
    {rows.value.length > 0 && <Table label="Partitions" heads={["Topic", "#Partition", "#Committed", "#End", "#Lag", "Read by"]}>{partitions.shown.map((each) =>
      <tr key={`${each.topic}:${each.partition}`}><td><a href={link("topics", each.topic)}>{visible(each.topic)}</a></td><td class="n">{each.partition}</td>
        <td class="n">{each.committed === null ? "none" : number(each.committed)}</td>
        <td class={`n ${each.error && "error"}`} title={each.error}>{each.error ? "unknown" : number(each.end)}</td>
        <td class={`n ${lagOf(each) ? "warning" : ""}`}>{number(lagOf(each))}</td><td>{visible(each.member, 80)}</td></tr>)}</Table>}
    {partitions.pager}
    <h2>Members</h2>{seen?.members.length === 0 && <p class="dim">It has none.</p>}
    {!!seen?.members.length && <Table label="Members" heads={["Client", "Host", "Member", "#Epoch", "Reads"]}>{members.shown.map((each) =>
      <tr key={each.member_id}><td>{visible(each.client_id, 80)}</td><td>{visible(each.client_host, 80)}</td><td class="wide">{visible(each.instance_id ?? each.member_id, 80)}</td>
        <td class="n">{each.member_epoch}</td><td class="wide">{each.assignment.slice(0, 20).map((part) => `${visible(part.topic, 80)}: ${part.partitions.slice(0, 50).join(", ")}${part.partitions.length > 50 ? ", …" : ""}`).join("; ")}
          {each.assignment.length > 20 && ` and ${each.assignment.length - 20} topics more`}</td></tr>)}</Table>}{members.pager}
    {seen && <Reset group={group} rows={rows.value} allowed={idle && mayReset} done={() => void load()}
      why={!mayReset ? "You may not change this group's offsets." : "Stop its members first: they would go on where they are."} />}
    {seen && <><h2>Delete</h2><Confirm name={group} what="Type the group's id" text="Delete the group and its offsets" allowed={idle && mayDelete}
      why={!mayDelete ? "You may not delete this group." : "Stop its members first."}
      act={async () => { gone.current = true; try { await ask(path(group), "DELETE"); } catch (failed) { gone.current = false; throw failed; } }} done={() => { location.hash = link("groups"); }} /></>}</>;
}
interface Reset { group: string; rows: Row[]; allowed: boolean; why: string; done: () => void }
function Reset({ group, rows, allowed, why, done }: Reset) {
  const kind = useSignal<Wish["to"]>("earliest"), plan = useSignal<Step[] | null>(null), error = useSignal(""), told = useSignal("");
  const topics = [...new Set(rows.map((one) => one.topic))].sort();
  const show = async (event: Event) => {
    event.preventDefault();
    const given = new FormData(event.target as HTMLFormElement), only = String(given.get("topic")), amount = String(given.get("amount") ?? "");
    error.value = told.value = ""; plan.value = null;
    try {
      const chosen = rows.filter((one) => !only || one.topic === only);
      const at = kind.value === "time" ? String(timeOf(amount)) : "";
      const fresh = await offsetsOf(byTopic(chosen), at);
      const places = fresh.filter((one) => !one.error).map((one) => ({ ...chosen.find((row) => row.topic === one.topic && row.partition === one.partition)!,
        start: one.log_start_offset, end: one.high_watermark, found: one.offset }));
      plan.value = planned(places, wishOf(kind.value, amount));
      const lost = fresh.length - places.length;
      if (lost) error.value = `${lost} partitions are left out: ${fresh.find((one) => one.error)!.error!.message}`;
    } catch (failed) { error.value = (failed as Error).message; }
  };
  const act = async () => {
    const offsets = changes(plan.value!).map((one) => ({ topic: one.topic, partition: one.partition, offset: one.after }));
    const answer = await ask<{ offsets: { topic: string; partition: number; error: { message: string } | null }[] }>(`${path(group)}/offsets`, "POST", { offsets });
    const refused = answer.offsets.filter((one) => one.error);
    told.value = `${offsets.length - refused.length} offsets are changed.`;
    plan.value = null;
    done();
    if (refused.length) throw new Error(`${refused.length} are not: ${refused[0]!.topic}-${refused[0]!.partition}: ${refused[0]!.error!.message}`);
  };
  const parts = useParts(plan.value ?? []), changed = changes(plan.value ?? []).length;
  const amount = { offset: ["Offset", "0"], shift: ["Offsets to add", "-100"], time: ["Time (UTC)", "2026-01-31T12:00"] }[kind.value as string];
  return <><h2>Reset offsets</h2>{!allowed && <p class="dim">{why}</p>}<form onSubmit={show} onInput={() => { plan.value = null; }}>
    <label>Topics<select name="topic" disabled={!allowed}><option value="">all</option>{topics.slice(0, 1_000).map((each) => <option value={each} key={each}>{visible(each, 100)}</option>)}</select></label>
    <label>To<select name="to" disabled={!allowed} value={kind.value} onChange={(event) => { kind.value = event.currentTarget.value as Wish["to"]; }}>
      <option value="earliest">the earliest record</option><option value="latest">the end</option><option value="time">a time</option>
      <option value="offset">an offset</option><option value="shift">some offsets further</option></select></label>
    {amount && <label>{amount[0]}<input name="amount" required placeholder={amount[1]} disabled={!allowed} /></label>}
    <button type="submit" disabled={!allowed || rows.length === 0}>Show the plan</button></form>
    <Problem text={error.value} /><p role="status">{told.value}</p>
    {plan.value && <><p role="status">{changed === 0 ? "This changes nothing." : `${number(changed)} of ${number(plan.value.length)} offsets change. Nothing is changed yet.`}</p>
      <Table label="Plan" heads={["Topic", "#Partition", "#Now", "#Then", "#Difference", "#Lag then"]}>{parts.shown.map((each) =>
        <tr key={`${each.topic}:${each.partition}`}><td>{visible(each.topic)}</td><td class="n">{each.partition}</td><td class="n">{each.before === null ? "none" : number(each.before)}</td>
          <td class="n">{number(each.after)}</td><td class="n">{each.before === null ? "–" : number(each.after - each.before)}</td><td class="n">{number(each.lag)}</td></tr>)}</Table>{parts.pager}
      {changed > 0 && <Confirm name={group} what="Type the group's id" text="Change these offsets" allowed={allowed} why={why} act={act} />}</>}</>;
}
function wishOf(to: Wish["to"], amount: string): Wish {
  if (to !== "offset" && to !== "shift") return { to };
  const value = Number(amount);
  if (!Number.isSafeInteger(value) || (to === "offset" && value < 0)) throw new Error(`Expected a whole number, received ${amount.slice(0, 60)}.`);
  return to === "offset" ? { to, offset: value } : { to, by: value };
}
