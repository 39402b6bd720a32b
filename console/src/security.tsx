import { useSignal } from "@preact/signals";
import { ask, session } from "./api";
import { Confirm, Pager, Problem, Table, usePages, useParts, useRepeated } from "./parts";
import { Quotas } from "./quotas";
import { number, visible } from "./text";

interface User { user: string; mechanism: string; mechanisms: string[] }
interface Rule { principal: string; operation: string; resource_type: string; resource_name: string; pattern: string; permission: string; host: string }
const OPERATIONS = ["read", "write", "create", "delete", "alter", "describe", "alter_configs", "describe_configs", "idempotent_write", "cluster_action", "all"];
const RESOURCES = ["topic", "group", "cluster", "transactional_id", "user"], MOST_RULES = 1_000;
const may = () => session.value?.cluster.includes("alter") ?? false;
const NO = "You may not alter the cluster.";

export function SecurityPage() {
  return <><h1>Security</h1><Mode /><Users /><Rules /><Quotas /></>;
}
function Mode() {
  const mode = session.value?.authorizer;
  return mode === "acl" ? <p class="ok">Access rules are enforced: every request needs credentials.</p>
    : mode === "log-only" ? <p class="warning">Access rules are not enforced. Brokers log what they would refuse.</p>
      : <p class="warning">Access rules are not enforced: everyone who reaches a broker may do everything.</p>;
}
function Users() {
  const chosen = useSignal(""), error = useSignal(""), told = useSignal("");
  const pages = usePages<User>("/v1/users", "users", {});
  const put = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target as HTMLFormElement, given = new FormData(form), user = String(given.get("user"));
    told.value = error.value = "";
    ask(`/v1/users/${encodeURIComponent(user)}`, "PUT", { password: String(given.get("password")) }).then(
      () => { told.value = `${visible(user)} has this password now.`; pages.again(); }, (failed: Error) => { error.value = failed.message; }).finally(() => { form.reset(); });
  };
  return <><h2>Users</h2><Pager pages={pages} what="users" />
    <Table label="Users" heads={["User", "Mechanisms", ""]}>{pages.found.value?.rows.map((each) => <tr key={each.user}><td>{visible(each.user)}</td><td>{each.mechanisms.join(", ") || each.mechanism}</td>
      <td><button type="button" disabled={!may()} title={may() ? "" : NO} onClick={() => { chosen.value = each.user; }}>Delete…</button></td></tr>)}</Table>
    {chosen.value && <Confirm key={chosen.value} name={chosen.value} what={`Type ${visible(chosen.value)}`} text="Delete the user" allowed={may()} why={NO}
      act={() => ask(`/v1/users/${encodeURIComponent(chosen.value)}`, "DELETE")} done={() => { chosen.value = ""; pages.again(); }} />}
    <form onSubmit={put}><label>User<input name="user" required disabled={!may()} autocomplete="off" /></label>
      <label>New password<input name="password" type="password" required minLength={8} disabled={!may()} autocomplete="new-password" /></label>
      <button type="submit" disabled={!may()} title={may() ? "" : NO}>Create, or change the password</button></form>
    <p class="dim">Brokers store a verifier of the password only, and show it to nobody.</p><Problem text={error.value} /><p role="status">{told.value}</p></>;
}
const same = (one: Rule, other: Rule) => JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort());
function words(one: Rule): string {
  const named = one.resource_type === "cluster" ? "the cluster" : `${one.resource_type.replace("_", " ")} ${one.pattern === "prefixed" ? `${one.resource_name}…` : one.resource_name}`;
  return `${one.principal} ${one.permission === "deny" ? "may not" : "may"} ${one.operation.replace("_", " ")} ${named}${one.host === "*" ? "" : ` from ${one.host}`}`;
}
function Rules() {
  const rules = useSignal<Rule[]>([]), matching = useSignal(0), error = useSignal(""), principal = useSignal(""), chosen = useSignal<Rule | null>(null);
  const load = () => {
    const query = new URLSearchParams({ limit: String(MOST_RULES), ...(principal.value ? { principal: principal.value } : {}) });
    return ask<{ acls: Rule[]; matching: number }>(`/v1/acls?${query}`).then((one) => { rules.value = one.acls; matching.value = one.matching; error.value = ""; }, (failed: Error) => { error.value = failed.message; });
  };
  useRepeated(load, 30_000, [principal.value]);
  const add = (event: SubmitEvent) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target as HTMLFormElement)) as Record<string, string>;
    ask("/v1/acls", "POST", { acls: [{ ...given, resource_name: given.resource_type === "cluster" ? "cluster" : given.resource_name }] }).then(load, (failed: Error) => { error.value = failed.message; });
  };
  const parts = useParts(rules.value, 100);
  return <><h2>Access rules</h2><div class="row"><label>Of the principal<input name="of" placeholder="User:alice" onChange={(event) => { principal.value = event.currentTarget.value.trim(); }} /></label>
      <span role="status">{number(matching.value)} rules{matching.value > rules.value.length && `, the first ${number(rules.value.length)} are listed`}</span></div><Problem text={error.value} />
    <Table label="Access rules" heads={["Principal", "Permission", "Operation", "On", "From", ""]}>{parts.shown.map((each) => <tr key={JSON.stringify(each)}>
      <td>{visible(each.principal)}</td><td class={each.permission === "deny" ? "error" : "ok"}>{each.permission === "deny" ? "may not" : "may"}</td><td>{each.operation}</td>
      <td class="wide">{each.resource_type === "cluster" ? "the cluster" : `${each.resource_type.replace("_", " ")} ${visible(each.resource_name)}${each.pattern === "prefixed" ? "…" : ""}`}</td><td>{visible(each.host)}</td>
      <td><button type="button" disabled={!may()} title={may() ? "" : NO} onClick={() => { chosen.value = each; }}>Delete…</button></td></tr>)}</Table>{parts.pager}
    {chosen.value && <div class="alert warning" role="group" aria-label="Delete a rule"><strong>Delete this rule?</strong><p>{visible(words(chosen.value))}</p><div class="row">
      <button type="button" class="danger" onClick={() => {
        const one = chosen.value!;
        ask(`/v1/acls?${new URLSearchParams({ ...one })}`, "DELETE").then(() => { rules.value = rules.value.filter((each) => !same(each, one)); chosen.value = null; load(); }, (failed: Error) => { error.value = failed.message; });
      }}>Delete the rule</button><button type="button" onClick={() => { chosen.value = null; }}>Keep it</button></div></div>}
    <form onSubmit={add}><label>Principal<input name="principal" required placeholder="User:alice" disabled={!may()} /></label>
      <label>Permission<select name="permission" disabled={!may()}><option value="allow">may</option><option value="deny">may not</option></select></label>
      <label>Operation<select name="operation" disabled={!may()}>{OPERATIONS.map((each) => <option key={each}>{each}</option>)}</select></label>
      <label>On<select name="resource_type" disabled={!may()}>{RESOURCES.map((each) => <option key={each}>{each}</option>)}</select></label>
      <label>Name<input name="resource_name" placeholder="a name, a prefix, or *" disabled={!may()} /></label>
      <label>Names<select name="pattern" disabled={!may()}><option value="literal">this name</option><option value="prefixed">beginning so</option></select></label>
      <button type="submit" disabled={!may()} title={may() ? "" : NO}>Add the rule</button></form></>;
}
