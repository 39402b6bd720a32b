import { useSignal } from "@preact/signals";
import { ask } from "./api";
import { cluster, happenings, refusal } from "./live";
import { link, Problem, Table, useParts, useRepeated } from "./parts";
import { number, share, size, visible, when, ago } from "./text";

interface Broker { broker_id: number; url: string; internal_url: string; rack: string; version: string; fenced: boolean }
interface Voter { node_id: number; address: string; role: string; log_end_offset: number; lag: number; last_heard_ms: number }
interface Quorum { leader_id: number; term: number; controller_epoch: number; log_end_offset: number; committed_offset: number; voters: Voter[] }
interface Stored { topic: string; partition: number; size_bytes: number; damage: string; lost_batches: number[] }
interface LogDir { path: string; total_bytes: number; usable_bytes: number; replicas: Stored[]; replica_count: number; size_bytes: number; damaged_count: number }
interface LogDirs { log_dirs: LogDir[]; offline: { topic: string; partition: number; error: string; lost_batches: number[] }[] }
interface Scrub { replicas_left: number; checked_bytes: number; damage_found: number; longest_unchecked_ms: number }
const GOOD = ["ok", "active", "standby"];

export function BrokersPage() {
  const brokers = useSignal<Broker[]>([]), quorum = useSignal<Quorum | null>(null), error = useSignal(""), lost = useSignal("");
  useRepeated(() => Promise.all([
    ask<{ brokers: Broker[] }>("/v1/brokers?consistency=local").then((one) => { brokers.value = one.brokers; error.value = ""; }, (failed: Error) => { error.value = failed.message; }),
    ask<Quorum>("/v1/quorum").then((one) => { quorum.value = one; lost.value = ""; }, (failed: Error) => { lost.value = failed.message; }),
  ]), 5_000, []);
  const live = (id: number) => cluster.value?.brokers.find((one) => one.node_id === id);
  const parts = useParts(brokers.value, 100), seen = quorum.value;
  return <><h1>Brokers and controllers</h1><Problem text={error.value} />{refusal.value && <p role="status" class="warning">{refusal.value}</p>}
    <h2>Brokers</h2><Table label="Brokers" heads={["Broker", "State", "Address", "Rack", "Version", "#Leads", "#Partitions", "#Under-replicated", "#Lag (records)", "#Disk"]}>
      {parts.shown.map((each) => {
        const now = live(each.broker_id), state = each.fenced ? "fenced" : now?.state ?? "registered";
        return <tr key={each.broker_id}><td><a href={link("brokers", each.broker_id)}>Broker {each.broker_id}</a></td>
          <td class={GOOD.includes(state) ? "ok" : "error"} title={now?.error ?? ""}>{state}</td><td>{each.url}</td><td>{visible(each.rack, 60) || "–"}</td><td>{visible(each.version, 40)}</td>
          <td class="n">{number(now?.partitions_led)}</td><td class="n">{number(now?.partitions)}</td><td class={`n ${now?.under_replicated ? "warning" : ""}`}>{number(now?.under_replicated)}</td>
          <td class="n">{number(now?.lag_records)}</td><td class="n">{share(now?.disk_used_share)}</td></tr>;
      })}</Table>{parts.pager}
    <h2>Metadata quorum</h2><Problem text={lost.value} />
    {seen && <><p>Controller {seen.leader_id} is active, in term {number(seen.term)}. {number(seen.committed_offset)} entries are committed.</p>
      <Table label="Controllers" heads={["Controller", "Role", "Address", "#Log end", "#Lag (entries)", "#Last heard"]}>{seen.voters.map((each) =>
        <tr key={each.node_id}><td>{each.node_id}</td><td class={["leader", "follower"].includes(each.role) ? "ok" : "error"}>{each.role}</td><td>{each.address}</td>
          <td class="n">{number(each.log_end_offset)}</td><td class={`n ${each.lag > 1000 ? "warning" : ""}`}>{number(each.lag)}</td>
          <td class="n">{each.role === "leader" ? "–" : each.last_heard_ms < 0 ? "never" : ago(each.last_heard_ms)}</td></tr>)}</Table></>}
    <h2>What happened</h2>{happenings.value.length === 0 ? <p class="dim">Nothing since this page was opened. A broker that ends, a new leader or a new active controller appears here.</p>
      : <ol class="happenings" aria-live="polite">{happenings.value.map((each, index) => <li key={`${each.at}:${happenings.value.length - index}`} class={each.bad ? "error" : ""}>
        <time>{when(each.at).slice(11, 19)}</time> {each.text}</li>)}</ol>}</>;
}
export function BrokerPage({ broker }: { broker: number }) {
  const found = useSignal<LogDirs | null>(null), scrub = useSignal<Scrub | null>(null), error = useSignal("");
  useRepeated(() => Promise.all([
    ask<LogDirs>(`/v1/brokers/${broker}/log-dirs?only=damaged`).then((one) => { found.value = one; error.value = ""; }, (failed: Error) => { error.value = failed.message; }),
    ask<Scrub>(`/v1/brokers/${broker}/scrub`).then((one) => { scrub.value = one; }, () => { scrub.value = null; }),
  ]), 10_000, []);
  const now = cluster.value?.brokers.find((one) => one.node_id === broker);
  const damaged = useParts((found.value?.log_dirs ?? []).flatMap((one) => one.replicas)), offline = useParts(found.value?.offline ?? []);
  const lostBatches = (list: number[]) => `${list.slice(0, 10).join(", ")}${list.length > 10 ? ` and ${list.length - 10} more` : ""}`;
  return <><h1>Broker {broker}</h1><Problem text={error.value} />
    {now && <div class="tiles"><div class="tile"><span>state</span><b class={GOOD.includes(now.state) ? "ok" : "error"}>{now.state}</b></div>
      <div class="tile"><span>leads</span><b>{now.partitions_led === null ? "–" : `${number(now.partitions_led)} of ${number(now.partitions)}`}</b></div>
      <div class="tile"><span>lag</span><b>{number(now.lag_records)}</b></div><div class="tile"><span>memory</span><b>{size(now.rss_bytes)}</b></div></div>}
    <p><a href={link("settings", broker)}>Its settings</a></p>
    <h2>Log folders</h2>{!found.value && <p class="dim">Not known: only the broker itself knows them.</p>}
    <Table label="Log folders" heads={["Folder", "#Replicas", "#Logs", "#Free", "#Disk used", "#Damaged"]}>{found.value?.log_dirs.map((each) =>
      <tr key={each.path}><td class="wide">{visible(each.path)}</td><td class="n">{number(each.replica_count)}</td><td class="n">{size(each.size_bytes)}</td><td class="n">{size(each.usable_bytes)}</td>
        <td class="n"><meter min={0} max={1} high={0.85} optimum={0} value={each.total_bytes > 0 ? 1 - each.usable_bytes / each.total_bytes : 0} aria-label="Disk used" /> {each.total_bytes > 0 ? share(1 - each.usable_bytes / each.total_bytes) : "–"}</td>
        <td class={`n ${each.damaged_count ? "error" : ""}`}>{number(each.damaged_count)}</td></tr>)}</Table>
    <h2>Damage and lost batches</h2>{!found.value && <p class="dim">Not known.</p>}{found.value && damaged.shown.length === 0 && offline.shown.length === 0 && <p class="ok">No damage is known, and every log can be used.</p>}
    {damaged.shown.length > 0 && <Table label="Damaged replicas" heads={["Topic", "#Partition", "Damage", "Lost batches (first offsets)"]}>{damaged.shown.map((each) =>
      <tr key={`${each.topic}:${each.partition}`}><td><a href={link("topics", each.topic)}>{visible(each.topic)}</a></td><td class="n">{each.partition}</td><td class="wide error">{visible(each.damage)}</td>
        <td class="wide">{lostBatches(each.lost_batches)}</td></tr>)}</Table>}{damaged.pager}
    {offline.shown.length > 0 && <Table label="Replicas that cannot be used" heads={["Topic", "#Partition", "Why", "Lost batches (first offsets)"]}>{offline.shown.map((each) =>
      <tr key={`${each.topic}:${each.partition}`}><td>{visible(each.topic)}</td><td class="n">{each.partition}</td><td class="wide error">{visible(each.error)}</td><td class="wide">{lostBatches(each.lost_batches)}</td></tr>)}</Table>}{offline.pager}
    {scrub.value && <p class="dim">{scrub.value.checked_bytes === 0 ? "The scrubber has not checked any log since the broker started." : `The scrubber has checked ${size(scrub.value.checked_bytes)} since the broker started, and found ${number(scrub.value.damage_found)} damaged batches. The oldest check is ${ago(scrub.value.longest_unchecked_ms)} old.`}</p>}</>;
}
