import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, askExactly, rightsOn, session } from "./api";
import { cluster, renewal } from "./live";
import { Moves, type Stored } from "./moving";
import { Confirm, link, Pager, Problem, Table, useParts, usePages, useRepeated } from "./parts";
import type { Value } from "./setting";
import { Settings, type Setting } from "./settings";
import { number, rate, size } from "./text";

interface Partition { partition: number; leader: number; replicas: number[]; isr: number[] }
interface Topic { topic: string; partitions: Partition[]; internal: boolean }
const path = (topic: string) => `/v1/topics/${encodeURIComponent(topic)}`;

export function TopicsPage() {
  const error = useSignal("");
  const pages = usePages<Topic>("/v1/topics", "topics", { consistency: "local" }, renewal());
  const create = (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.target as HTMLFormElement), name = String(given.get("topic"));
    const body = { topic: name, partitions: Number(given.get("partitions")), replication_factor: Number(given.get("replicas")) };
    ask("/v1/topics", "POST", body).then(() => { location.hash = link("topics", name); }, (failed: Error) => { error.value = failed.message; });
  };
  const mayCreate = [session.value?.topic, session.value?.cluster].some((rights) => rights?.includes("create"));
  return <><h1>Topics</h1><Problem text={error.value} />
    <form onSubmit={create}><label>New topic<input name="topic" required disabled={!mayCreate} autocomplete="off" /></label>
      <label>Partitions<input name="partitions" type="number" min="1" value="3" disabled={!mayCreate} /></label>
      <label>Replicas<input name="replicas" type="number" min="1" value="3" disabled={!mayCreate} /></label>
      <button type="submit" disabled={!mayCreate} title={mayCreate ? "" : "You may not create topics."}>Create</button></form>
    <Pager pages={pages} what="topics" />
    <Table label="Topics" heads={["Topic", "#Partitions", "#Replicas", "In sync", "#Records in", "#In"]}>{pages.found.value?.rows.map((each) => {
      const traffic = cluster.value?.topics.find((one) => one.topic === each.topic);
      const lacking = each.partitions.filter((one) => one.isr.length < one.replicas.length).length;
      return <tr key={each.topic}><td><a href={link("topics", each.topic)}>{each.topic}</a>{each.internal && <span class="dim"> internal</span>}</td>
        <td class="n">{number(each.partitions.length)}</td><td class="n">{each.partitions[0]?.replicas.length}</td>
        <td class={lacking ? "warning" : "ok"}>{lacking ? `${number(lacking)} lack a replica` : "all"}</td>
        <td class="n">{traffic ? `${number(traffic.records_in_per_s)}/s` : "–"}</td><td class="n">{rate(traffic?.bytes_in_per_s)}</td></tr>;
    })}</Table></>;
}
export function TopicPage({ topic }: { topic: string }) {
  const found = useSignal<Topic | null>(null), stored = useSignal<Stored[]>([]), error = useSignal(""), gone = useSignal(false);
  const rights = useSignal<string[]>([]), settings = useSignal<Setting[]>([]), troubled = useSignal(false);
  const changed = renewal(), unread = useSignal("");
  const fail = (failed: Error) => { if (!gone.value) error.value = failed.message; };
  const load = async () => {
    if (gone.value) return;
    const [one, all] = await Promise.all([ask<Topic>(`${path(topic)}?consistency=local`), askExactly<{ settings: Setting[] }>(`${path(topic)}/settings?consistency=local`)]);
    found.value = one; settings.value = all.settings; error.value = "";
  };
  useEffect(() => {
    load().catch(fail);
    rightsOn("topic", topic).then((one) => { rights.value = one; }, fail);
  }, [changed]);
  useRepeated(async () => {
    if (gone.value) return;
    try {
      stored.value = (await ask<{ replicas: Stored[] }>(`/console/api/topics/${encodeURIComponent(topic)}`)).replicas;
      unread.value = "";
    } catch (failed) { if (!gone.value) unread.value = `Offsets and sizes may be old: ${(failed as Error).message}`; }
  }, 5_000, []);
  const may = (right: string) => rights.value.includes(right);
  const mayDelete = may("delete") && !found.value?.internal, mayAlter = may("alter") && !found.value?.internal;
  const change = async (name: string, value: Value) => { await ask(path(topic), "PATCH", { configs: { [name]: value } }); await load(); };
  const remove = async () => {
    gone.value = true;
    try { await ask(path(topic), "DELETE"); } catch (failed) { gone.value = false; throw failed; }
  };
  const grow = (event: SubmitEvent) => {
    event.preventDefault();
    ask(path(topic), "PATCH", { partitions: Number(new FormData(event.target as HTMLFormElement).get("partitions")) }).then(load).catch(fail);
  };
  const logs = new Map(stored.value.map((one) => [`${one.broker}:${one.partition}`, one]));
  const lacks = (one: Partition) => one.leader < 0 || one.isr.length < one.replicas.length;
  const every = found.value?.partitions ?? [], count = every.filter(lacks).length;
  const parts = useParts(troubled.value ? every.filter(lacks) : every);
  return <><h1>Topic {topic}</h1><Problem text={error.value} />
    {may("read") ? <p><a href={link("topics", topic, "records")}>Browse its records, or produce one</a></p> : <p class="dim">You may not read its records.</p>}
    <h2>Partitions</h2><p class="dim">Filled: the leader. Dashed: a replica that is not in sync.</p><Problem text={unread.value} />
    {count > 0 && <label class="check"><input type="checkbox" checked={troubled.value} onChange={(event) => { troubled.value = event.currentTarget.checked; }} /> Only the {number(count)} that lack a replica</label>}
    <Table label="Partitions" heads={["Partition", "Replicas on brokers", "#Start", "#End", "#Size"]}>{parts.shown.map((each) => {
      const log = logs.get(`${each.leader}:${each.partition}`);
      return <tr key={each.partition}><td>{each.partition}</td><td>{each.replicas.map((broker) => {
        const kind = broker === each.leader ? "leader" : each.isr.includes(broker) ? "" : "out";
        const words = kind === "leader" ? "leader" : kind ? "not in sync" : "in sync";
        const own = logs.get(`${broker}:${each.partition}`), behind = log && own ? `, ends at ${number(own.log_end_offset)}` : "";
        return <span class={`replica ${kind}`} title={`broker ${broker}: ${words}${behind}`} key={broker}>{broker}<span class="hidden"> {words}</span></span>;
      })}{each.leader < 0 && <span class="error">no leader</span>}</td><td class="n">{number(log?.log_start_offset)}</td>
      <td class="n">{number(log?.log_end_offset)}</td><td class="n">{size(log?.size_bytes)}</td></tr>;
    })}</Table>{parts.pager}
    <form onSubmit={grow}><label>Partitions<input name="partitions" type="number" required min={every.length + 1} placeholder={String(every.length)} disabled={!mayAlter} /></label>
      <button type="submit" disabled={!mayAlter} title={mayAlter ? "" : "You may not alter this topic."}>Add partitions</button></form>
    {found.value && <Moves topic={topic} partitions={every} stored={stored.value} renew={changed} again={load} />}
    <h2>Settings</h2><Settings label="Settings" settings={settings} may={may("alter_configs")} why="You may not alter this topic's settings." own="topic" change={change} />
    <h2>Delete</h2><Confirm name={topic} what="Type the topic's name" text="Delete the topic and its records" allowed={mayDelete} why={found.value?.internal ? "Coordinators keep their state here." : "You may not delete this topic."}
      act={remove} done={() => { location.hash = link("topics"); }} /></>;
}
