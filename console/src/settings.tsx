import { useSignal, type Signal } from "@preact/signals";
import { ask, askExactly, session } from "./api";
import { link, Problem, Table, useRepeated } from "./parts";
import { typed, type Value } from "./setting";
import { meaning, visible } from "./text";

export interface Setting { name: string; value: Value; source: string; default: Value; is_dynamic: boolean }
export const shownValue = (value: Value) => (value === null ? "–" : Array.isArray(value) ? value.map((each) => visible(each)).join(", ") || "none" : value === "" ? "empty" : visible(String(value)));
interface Shown { label: string; settings: Signal<Setting[]>; may: boolean; why: string; own: string; change: (name: string, value: Value) => Promise<unknown> }
// Settings in force. Those that a request changes can be edited; `own` is the source whose value can be removed.
export function Settings({ label, settings, may, why, own, change }: Shown) {
  const filter = useSignal(""), changedOnly = useSignal(false), editing = useSignal(""), error = useSignal(""), busy = useSignal(false);
  const act = (name: string, value: Value) => {
    busy.value = true; error.value = "";
    change(name, value).then(() => { editing.value = ""; }, (failed: Error) => { error.value = failed.message; }).finally(() => { busy.value = false; });
  };
  const shown = settings.value.filter((one) => one.name.includes(filter.value) && (!changedOnly.value || one.source !== "default"));
  return <><div class="row"><label>Filter<input name="filter" type="search" onInput={(event) => { filter.value = event.currentTarget.value; }} /></label>
      <label class="check"><input type="checkbox" onChange={(event) => { changedOnly.value = event.currentTarget.checked; }} /> Without defaults</label></div><Problem text={error.value} />
    <Table label={label} heads={["Setting", "Value", "Comes from", "Default", ""]}>{shown.map((one) => <tr key={one.name}><th scope="row">{one.name}</th>
      <td class="wide">{editing.value !== one.name ? <>{shownValue(one.value)}<span class="dim"> {meaning(one.name, one.value)}</span></> : <form class="inline" onSubmit={(event) => {
        event.preventDefault();
        act(one.name, typed(String(new FormData(event.target as HTMLFormElement).get("value")), one.default));
      }}><input name="value" aria-label={`The value of ${one.name}`} defaultValue={String(one.value ?? "")} /><button type="submit" disabled={busy.value}>Save</button>
        <button type="button" onClick={() => { editing.value = ""; }}>Leave</button></form>}</td>
      <td class={one.source === "default" ? "dim" : ""}>{one.source === "file" ? "node.toml" : one.source === "default" ? "default" : `this: ${one.source}`.replace("this: all brokers", "all brokers").replace("this: ", "this ")}</td>
      <td class="wide dim">{shownValue(one.default)}</td>
      <td>{one.is_dynamic && editing.value !== one.name && <><button type="button" disabled={!may} title={may ? "" : why} aria-label={`Change ${one.name}`} onClick={() => { editing.value = one.name; error.value = ""; }}>Change</button>
        {one.source === own && <button type="button" disabled={!may || busy.value} title={may ? "" : why} aria-label={`Remove the value of ${one.name}`} onClick={() => act(one.name, null)}>Remove</button>}</>}</td></tr>)}</Table></>;
}
export function SettingsPage({ broker }: { broker: number | null }) {
  const brokers = useSignal<number[]>([]), settings = useSignal<Setting[]>([]), error = useSignal(""), all = useSignal(false);
  const id = broker ?? session.value!.broker_id;
  const load = () => askExactly<{ settings: Setting[] }>(`/v1/brokers/${id}/settings`).then((one) => { settings.value = one.settings; error.value = ""; }, (failed: Error) => { error.value = failed.message; });
  useRepeated(load, 20_000, [id]);
  useRepeated(() => ask<{ brokers: { broker_id: number }[] }>("/v1/brokers?consistency=local").then(
    (one) => { brokers.value = one.brokers.map((each) => each.broker_id); }, () => undefined), 60_000, []);
  const may = session.value?.cluster.includes("alter_configs") ?? false;
  const change = async (name: string, value: Value) => {
    await ask(`/v1/brokers/${all.value ? "default" : id}/configs`, "PATCH", { configs: { [name.replace(/^topic\./, "")]: value } });
    await load();
  };
  return <><h1>Settings of broker {id}</h1><div class="row"><label>Broker<select name="broker" value={String(id)} onChange={(event) => { location.hash = link("settings", event.currentTarget.value); }}>
      {brokers.value.slice(0, 1_000).map((each) => <option value={String(each)} key={each}>{each}</option>)}</select></label>
      <label>Changes are for<select name="scope" value={all.value ? "all" : "one"} onChange={(event) => { all.value = event.currentTarget.value === "all"; }}>
        <option value="one">this broker</option><option value="all">all brokers</option></select></label></div>
    <p class="dim">Settings from node.toml change with a restart. Names that begin with "topic." hold for topics without a value of their own. Those of security and TLS are not shown.</p>
    <Problem text={error.value} /><Settings label="Settings" settings={settings} may={may} why="You may not alter settings." own={all.value ? "all brokers" : "broker"} change={change} /></>;
}
