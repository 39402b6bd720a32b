// Quotas: a list, and changes with a plan first.
import { useSignal } from "@preact/signals";
import { ask, session } from "./api";
import { Problem, Table, useParts, useRepeated } from "./parts";
import { isOf, labelOf, LIMITS, limitsOf, planned, removal, shown, typed, whose, type Quota, type Step } from "./quota";
import { number, visible } from "./text";

interface Listed { quotas: Quota[]; enforced_for: string }
interface Planned { user: string; client_id: string; steps: Step[]; left: number }
type Kind = "name" | "*" | "";
const NO = "You may not alter settings of the cluster.";
const may = () => session.value?.cluster.includes("alter_configs") ?? false;
const kindOf = (name: string): Kind => (name === "*" || name === "" ? name : "name");

export function Quotas() {
  const found = useSignal<Listed | null>(null), error = useSignal(""), filter = useSignal(""), edited = useSignal<Quota | null>(null), plan = useSignal<Planned | null>(null), told = useSignal("");
  const load = () => ask<Listed>("/v1/quotas").then((one) => { found.value = one; error.value = ""; }, (failed: Error) => { error.value = failed.message; });
  useRepeated(load, 30_000, []);
  const all = found.value?.quotas ?? [], wanted = filter.value.toLowerCase();
  const listed = all.filter((one) => `${one.user}\n${one.client_id}`.toLowerCase().includes(wanted)), parts = useParts(listed, 100);
  const round = useSignal(0), edit = (one: Quota | null) => { edited.value = one; plan.value = null; told.value = ""; round.value += 1; };
  const off = !may(), why = off ? NO : "";
  const others = (one: Quota) => Object.entries(one.limits).filter(([name]) => !LIMITS.some((each) => each.name === name)).map(([name, value]) => `, ${visible(name, 60)}: ${value}`).join("");
  const done = (words: string) => { edit(null); told.value = words; void load(); };
  return <><h2>Quotas</h2><p class="dim">{found.value?.enforced_for === "anonymous" ? "Each broker enforces them by itself. Every client is the user ANONYMOUS, as there is no authorizer." : "Each broker enforces them by itself: a client of three brokers reaches three times the rate."}</p>
    <Problem text={error.value} />{found.value && all.length === 0 && <p class="dim">There are none: no client is limited.</p>}
    {all.length > 0 && <><div class="row"><label>Of the user or client id<input name="quota-filter" type="search" onInput={(event) => { filter.value = event.currentTarget.value; }} /></label><span role="status">{number(listed.length)} {listed.length === 1 ? "quota" : "quotas"}</span></div>
      <Table label="Quotas" heads={["User", "Client id", ...LIMITS.map((one) => `#${one.label}`), ""]}>{parts.shown.map((one) => <tr key={JSON.stringify([one.user, one.client_id])}>
        <td>{one.user === "*" ? <em>each other user</em> : visible(one.user, 100) || "–"}</td><td>{one.client_id === "*" ? <em>each other client id</em> : visible(one.client_id, 100) || "–"}</td>
        {LIMITS.map(({ name }) => <td class="n" key={name}>{one.limits[name] === undefined ? "–" : shown(name, one.limits[name])}</td>)}
        <td>{others(one).slice(2)}<button type="button" disabled={off} title={why} aria-label={`Change the quota of ${visible(whose(one), 100)}`} onClick={() => edit(one)}>Change…</button>
          <button type="button" disabled={off} title={why} aria-label={`Delete the quota of ${visible(whose(one), 100)}`} onClick={() => { edit(null); plan.value = { ...one, steps: removal(one), left: 0 }; }}>Delete…</button></td></tr>)}</Table></>}{parts.pager}
    {(!plan.value || plan.value.left > 0) && <Form key={round.value} edited={edited.value} all={all} off={off} plan={(one) => { plan.value = one; told.value = ""; }} leave={() => edit(null)} />}
    {off && <p class="dim">{NO}</p>}<p role="status">{told.value}</p>{plan.value && <Preview key={JSON.stringify(plan.value)} plan={plan.value} off={off} done={done} leave={() => edit(null)} />}</>;
}
interface Shown { edited: Quota | null; all: Quota[]; off: boolean; plan: (one: Planned | null) => void; leave: () => void }
function Form({ edited, all, off, plan, leave }: Shown) {
  const user = useSignal<Kind>(kindOf(edited?.user ?? "name")), client = useSignal<Kind>(kindOf(edited?.client_id ?? "")), error = useSignal(""), fixed = edited !== null;
  const show = (event: Event) => {
    event.preventDefault();
    const given = new FormData(event.target as HTMLFormElement), text = (name: string) => String(given.get(name) ?? "");
    error.value = "";
    try {
      const entity = edited ?? { user: user.value === "name" ? text("quota-user").trim() : user.value, client_id: client.value === "name" ? text("quota-client").trim() : client.value };
      if (!entity.user && !entity.client_id) throw new Error("A quota is of a user, of a client id, or of both.");
      const before = all.find(isOf(entity.user, entity.client_id))?.limits ?? {};
      // A form that began empty changes only what was typed: what another quota form set stays.
      const texts = Object.fromEntries(LIMITS.map(({ name }) => [name, edited || text(name).trim() ? text(name) : typed(name, before[name])]));
      const steps = planned(before, texts), after = new Set(Object.keys(before));
      for (const one of steps) if (one.after === null) after.delete(one.name); else after.add(one.name);
      plan({ user: entity.user, client_id: entity.client_id, steps, left: Math.max(1, after.size) });
    } catch (failed) { error.value = (failed as Error).message; plan(null); }
  };
  const choice = (label: string, what: string, kind: typeof user, name: string) => <><label>{label}<select name={`${name}-kind`} value={kind.value} disabled={off || fixed} onChange={(event) => { kind.value = event.currentTarget.value as Kind; }}>
      <option value="name">this {what}</option><option value="*">each {what} without its own</option><option value="">any {what}</option></select></label>
    {kind.value === "name" && <label>{`Name of the ${what}`}<input name={name} required disabled={off || fixed} autocomplete="off" spellcheck={false} defaultValue={name === "quota-user" ? edited?.user : edited?.client_id} /></label>}</>;
  return <form onSubmit={show} onInput={() => plan(null)} aria-label="A quota">{choice("Limit", "user", user, "quota-user")}{choice("with", "client id", client, "quota-client")}
    {LIMITS.map(({ name, label, unit }) => <label key={name}>{label} ({unit})<input name={name} inputMode="decimal" size={9} placeholder={fixed ? "no limit" : "as now"} disabled={off} autocomplete="off" defaultValue={typed(name, edited?.limits[name])} /></label>)}
    <button type="submit" disabled={off} title={off ? NO : ""}>Show the change</button>{fixed && <button type="button" onClick={leave}>Leave</button>}<Problem text={error.value} /></form>;
}
function Preview({ plan, off, done, leave }: { plan: Planned; off: boolean; done: (words: string) => void; leave: () => void }) {
  const error = useSignal(""), busy = useSignal(false), removes = plan.left === 0, name = visible(whose(plan), 200);
  const act = () => {
    busy.value = true; error.value = "";
    ask("/v1/quotas", "PATCH", { user: plan.user, client_id: plan.client_id, limits: limitsOf(plan.steps) }).then(
      () => done(removes ? `The quota of ${name} is deleted.` : `The quota of ${name} is changed.`), (failed: Error) => { error.value = failed.message; }).finally(() => { busy.value = false; });
  };
  if (plan.steps.length === 0) return <p role="status">This changes nothing.</p>;
  return <><p role="status">For {name}{removes && ", this quota is deleted"}. Nothing is changed yet.</p>
    <Table label="Plan of the quota" heads={["Limit", "#Now", "#Then"]}>{plan.steps.map((one) => <tr key={one.name}><td>{visible(labelOf(one.name), 60)}</td>
      <td class="n">{shown(one.name, one.before)}</td><td class="n">{shown(one.name, one.after)}</td></tr>)}</Table>
    <div class="row"><button type="button" class={removes ? "danger" : ""} disabled={off || busy.value} onClick={act}>{removes ? "Delete this quota" : "Save this quota"}</button><button type="button" onClick={leave}>Leave it</button></div><Problem text={error.value} /></>;
}
