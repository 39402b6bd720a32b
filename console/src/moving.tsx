// Moves of a topic's replicas to other brokers: a plan first, then their progress.
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ask, session } from "./api";
import { Problem, Table, useParts, useRepeated } from "./parts";
import { cancelled, changes, copied, partitionsOf, planned, progress, recordsLeft, type Move, type Placed } from "./moves";
import { ago, number, rate, share, size, visible } from "./text";
import { byteRate } from "./units";

export interface Stored { broker: number; partition: number; size_bytes: number; log_start_offset: number; log_end_offset: number }
interface Broker { broker_id: number; rack: string; fenced: boolean }
interface Partition { partition: number; leader: number; replicas: number[] }
interface Moving extends Placed { topic: string; isr: number[]; records_left: number | null }
interface Shown { topic: string; partitions: Partition[]; stored: Stored[]; renew: unknown; again: () => Promise<void> }
const THROTTLE = "reassignment_throttle_bytes_per_second", LIMITS = "/v1/brokers/default/configs", MOVES = "/v1/reassignments", NO = "You may not alter the cluster.";
const may = (right: string) => session.value?.cluster.includes(right) ?? false;

const movesOf = async (topic: string, query: string) => (await ask<{ partitions: Moving[] }>(`${MOVES}${query}`)).partitions.filter((one) => one.topic === topic);

// The moves of this topic that are in progress. Leaders are asked how far they are only while there are some.
function useMoves(topic: string, renew: unknown, again: () => Promise<void>): { moving: Signal<Moving[]>; ended: Signal<string>; error: Signal<string>; load: (begun?: boolean) => Promise<void> } {
  const moving = useSignal<Moving[]>([]), ended = useSignal(""), error = useSignal(""), busy = useRef(false);
  const load = async (begun = false) => {
    if (busy.current || !may("describe")) return;
    busy.current = true;
    try {
      const before = moving.value.length, some = before > 0 || (await movesOf(topic, "?consistency=local")).length > 0;
      const now = some ? await movesOf(topic, "") : [];
      if (begun || now.length !== before) await again();
      moving.value = now;
      if (moving.value.length) ended.value = ""; else if (before || begun) ended.value = "No replica of this topic moves any more.";
      error.value = "";
    } catch (failed) { error.value = (failed as Error).message; } finally { busy.current = false; }
  };
  useRepeated(() => { if (moving.value.length) return load(); }, 2_000, []);
  useEffect(() => { void load(); }, [renew]);
  return { moving, ended, error, load };
}
function Replicas({ list, marked, words }: { list: number[]; marked: number[]; words: string }) {
  return <>{list.map((broker, at) => <span class={`replica ${marked.includes(broker) ? words : at === 0 ? "first" : ""}`} title={`broker ${broker}${at === 0 ? ", the preferred leader" : ""}${marked.includes(broker) ? `, ${words}` : ""}`}
    key={broker}>{broker}{marked.includes(broker) && <span class="hidden"> {words}</span>}</span>)}</>;
}
export function Moves({ topic, partitions, stored, renew, again }: Shown) {
  const { moving, ended, error, load } = useMoves(topic, renew, again);
  const limit = useSignal<number | null | undefined>(undefined);
  const readLimit = () => ask<{ configs: Record<string, number> }>(`${LIMITS}?consistency=local`).then((one) => {
    limit.value = one.configs[THROTTLE] !== undefined && one.configs[THROTTLE] > 0 ? one.configs[THROTTLE] : null;
  }, () => { limit.value = undefined; });
  useEffect(() => { if (may("describe_configs")) void readLimit(); }, [renew]);
  const started = async () => { await load(true); await readLimit(); };
  return <><h2>Move replicas</h2>{!may("describe") && <p class="dim">You may not describe the cluster, so moves in progress are not shown.</p>}
    <Problem text={error.value} /><p role="status">{ended.value}</p>
    {moving.value.length > 0 && <Progress moving={moving.value} partitions={partitions} stored={stored} limit={limit.value} load={started} />}
    <Plan topic={topic} partitions={partitions} moving={moving.value} limit={limit.value} done={started} /></>;
}
interface InProgress { moving: Moving[]; partitions: Partition[]; stored: Stored[]; limit: number | null | undefined; load: () => Promise<void> }
function Progress({ moving, partitions, stored, limit, load }: InProgress) {
  const error = useSignal(""), busy = useSignal(false), parts = useParts(moving, 100);
  const act = (work: Promise<unknown>) => {
    busy.value = true; error.value = "";
    work.then(load).catch((failed: Error) => { error.value = failed.message; }).finally(() => { busy.value = false; });
  };
  const send = (some: Moving[]) => ask(MOVES, "POST", { partitions: some.map(({ topic, partition }) => ({ topic, partition, replicas: null })) });
  const cancel = (some: Moving[]) => act(cancelled(some, send, () => movesOf(some[0]!.topic, "?consistency=local")));
  const leaders = new Map(partitions.map((one) => [one.partition, one.leader]));
  const logs = new Map(stored.map((one) => [`${one.broker}:${one.partition}`, one]));
  const leaderLog = (one: Moving) => logs.get(`${leaders.get(one.partition)}:${one.partition}`);
  const leftOf = (one: Moving) => recordsLeft(one.records_left, leaderLog(one), one.adding.map((broker) => logs.get(`${broker}:${one.partition}`)));
  const lefts = moving.map(leftOf), left = lefts.includes(null) ? "an unknown number of" : number(lefts.reduce<number>((sum, one) => sum + one!, 0));
  const off = !may("alter") || busy.value, why = may("alter") ? "" : NO;
  return <><p role="status">{number(moving.length)} {moving.length === 1 ? "partition moves" : "partitions move"}: {left} records are left to copy.
      {limit !== undefined && (limit === null ? " Copying is not limited." : ` Each broker copies at most ${rate(limit)}.`)}</p>
    <Table label="Moves in progress" heads={["Partition", "Replicas", "New on", "Leaves", "Progress", "#Records left", ""]}>{parts.shown.map((one) => {
      const part = progress(leftOf(one), leaderLog(one));
      return <tr key={one.partition}><td>{one.partition}</td><td><Replicas list={one.replicas} marked={one.adding} words="new" /></td><td>{one.adding.join(", ") || "–"}</td><td>{one.removing.join(", ") || "–"}</td>
        <td>{part === null ? <span class="dim">not known</span> : <><progress max={1} value={part} aria-label={`Partition ${one.partition}: copied`} /> {share(Math.floor(100 * part) / 100)}</>}</td>
        <td class="n">{number(leftOf(one))}</td><td><button type="button" disabled={off} title={why} aria-label={`Cancel the move of partition ${one.partition}`} onClick={() => cancel([one])}>Cancel</button></td></tr>;
    })}</Table>{parts.pager}<div class="row"><button type="button" class="danger" disabled={off} title={why} onClick={() => cancel(moving)}>Cancel all moves of this topic</button>
      {typeof limit === "number" && <button type="button" disabled={busy.value || !may("alter_configs")} title={may("alter_configs") ? "" : "You may not alter settings."}
        onClick={() => act(ask(LIMITS, "PATCH", { configs: { [THROTTLE]: null } }))}>Remove the limit</button>}</div>
    <p class="dim">A cancelled move restores the replicas from before it.</p><Problem text={error.value} /></>;
}
interface Planned { moves: Move[]; count: number; throttle: number | null }
interface Planning { topic: string; partitions: Partition[]; moving: Moving[]; limit: number | null | undefined; done: () => Promise<void> }
function Plan({ topic, partitions, moving, limit, done }: Planning) {
  const brokers = useSignal<Broker[]>([]), chosen = useSignal<number[] | null>(null), plan = useSignal<Planned | null>(null), error = useSignal(""), told = useSignal(""), busy = useSignal(false);
  useRepeated(() => ask<{ brokers: Broker[] }>("/v1/brokers?consistency=local").then(
    (one) => { brokers.value = one.brokers; }, (failed: Error) => { error.value = failed.message; }), 20_000, []);
  const moves = new Map(moving.map((one) => [one.partition, one]));
  const placed = partitions.map((one): Placed => moves.get(one.partition) ?? { partition: one.partition, replicas: one.replicas, adding: [], removing: [] });
  const now = [...new Set(placed.flatMap((one) => one.replicas.filter((broker) => !one.removing.includes(broker))))], ticked = chosen.value ?? now;
  const off = !may("alter"), why = off ? NO : "", limitOff = off || !may("alter_configs");
  const sizes = async () => {
    const { replicas } = await ask<{ replicas: Stored[] }>(`/console/api/topics/${encodeURIComponent(topic)}`);
    const leaders = new Map(partitions.map((one) => [one.partition, one.leader]));
    return new Map(replicas.filter((one) => leaders.get(one.partition) === one.broker).map((one) => [one.partition, one.size_bytes]));
  };
  const show = async (event: Event) => {
    event.preventDefault();
    const given = new FormData(event.target as HTMLFormElement), leader = String(given.get("leader") ?? "");
    error.value = told.value = ""; plan.value = null;
    try {
      const wanted = partitionsOf(String(given.get("partitions")), partitions.length), throttle = byteRate(String(given.get("limit") ?? ""), "Copy at most"), known = await sizes();
      const found = planned(placed, { partitions: wanted, brokers: brokers.value.filter((one) => ticked.includes(one.broker_id)),
        replicas: Number(given.get("replicas")), leader: leader ? Number(leader) : null }, (partition) => known.get(partition) ?? null);
      plan.value = { moves: changes(found, placed), count: found.length, throttle };
    } catch (failed) { error.value = (failed as Error).message; }
  };
  const start = async () => {
    const { moves: wanted, throttle } = plan.value!;
    busy.value = true; error.value = "";
    try {
      if (throttle !== null) await ask(LIMITS, "PATCH", { configs: { [THROTTLE]: throttle } });
      await ask(MOVES, "POST", { partitions: wanted.map((one) => ({ topic, partition: one.partition, replicas: one.after })) });
      told.value = `${number(wanted.length)} ${wanted.length === 1 ? "move has" : "moves have"} begun.`;
      plan.value = null;
      await done();
    } catch (failed) { error.value = (failed as Error).message; } finally { busy.value = false; }
  };
  const tick = (id: number, on: boolean) => { chosen.value = on ? [...ticked, id] : ticked.filter((one) => one !== id); plan.value = null; };
  return <><form onSubmit={(event) => void show(event)} onInput={() => { plan.value = null; }}><label>Partitions to move<input name="partitions" defaultValue="all" placeholder="all, or 0,4-7" disabled={off} autocomplete="off" /></label>
      <label>Replicas of each<input name="replicas" type="number" min="1" required defaultValue={String(target(placed))} disabled={off} /></label>
      <label>Preferred leader<select name="leader" disabled={off}><option value="">as now, or spread</option>{ticked.map((id) => <option value={String(id)} key={id}>broker {id}</option>)}</select></label>
      <label>Copy at most (MB/s, each broker)<input name="limit" inputMode="decimal" placeholder={typeof limit === "number" ? `as now: ${rate(limit)}` : limit === null ? "as now: no limit" : "as now"} disabled={limitOff} title={limitOff && !off ? "You may not alter settings." : why} autocomplete="off" /></label>
      <fieldset disabled={off}><legend>Brokers that shall have replicas</legend>{brokers.value.map((one) => <label class="check" key={one.broker_id}>
        <input type="checkbox" name="broker" checked={ticked.includes(one.broker_id)} onChange={(event) => tick(one.broker_id, event.currentTarget.checked)} /> Broker {one.broker_id}
        <span class={one.fenced ? "warning" : "dim"}>{[one.fenced && "out of use: fenced", one.rack && `rack ${visible(one.rack, 40)}`].filter(Boolean).join(", ")}</span></label>)}</fieldset>
      <button type="submit" disabled={off || brokers.value.length === 0} title={why}>Show the moves</button></form>{off && <p class="dim">{NO}</p>}
    <Problem text={error.value} /><p role="status">{told.value}</p>{plan.value && <Preview plan={plan.value} limit={limit} brokers={brokers.value} busy={busy.value} start={() => void start()} />}</>;
}
const target = (placed: Placed[]) => (placed[0] ? placed[0].replicas.length - placed[0].removing.length : 1);
function Preview({ plan, limit, brokers, busy, start }: { plan: Planned; limit: number | null | undefined; brokers: Broker[]; busy: boolean; start: () => void }) {
  const parts = useParts(plan.moves, 100), { bytes, most } = copied(plan.moves), speed = plan.throttle ?? limit;
  const lost = brokers.filter((one) => one.fenced && plan.moves.some((move) => move.added.includes(one.broker_id))).map((one) => one.broker_id);
  if (plan.moves.length === 0) return <p role="status">This changes nothing.</p>;
  return <><p role="status">{number(plan.moves.length)} of {number(plan.count)} partitions change. {bytes === null ? "How much is copied is not known: a leader does not answer." : bytes === 0 ? "Nothing is copied." : `${size(bytes)} are copied.`}
      {plan.throttle !== null && ` Each broker copies at most ${rate(plan.throttle)} from then on.`}{speed && most ? ` That takes ${ago(1_000 * most / speed)} at least.` : ""} Nothing is moved yet.</p>
    {lost.length > 0 && <p class="warning">Broker {lost.join(", ")} {lost.length === 1 ? "is" : "are"} fenced: moves to it wait until it serves again.</p>}
    <Table label="Plan of the moves" heads={["Partition", "Now", "Then", "New on", "Leaves", "#To copy"]}>{parts.shown.map((one) => <tr key={one.partition}><td>{one.partition}</td>
      <td><Replicas list={one.before} marked={one.removed} words="leaves" /></td><td><Replicas list={one.after} marked={one.added} words="new" /></td>
      <td>{one.added.join(", ") || "–"}</td><td>{one.removed.join(", ") || "–"}</td><td class="n">{size(one.bytes)}</td></tr>)}</Table>{parts.pager}
    <p class="dim">Replicas leave when all new ones are in sync. A log that leaves may have the only intact copy of a damaged batch: to rule that out, run raftlog storage scrub before.</p>
    <div class="row"><button type="button" disabled={busy} onClick={start}>Start {plan.moves.length === 1 ? "this move" : "these moves"}</button></div></>;
}
