import { useSignal } from "@preact/signals";
import { ask, session } from "./api";
import { clusterTime, renewal } from "./live";
import { Confirm, link, Pager, Table, usePages } from "./parts";
import { ago, number, visible, when } from "./text";

interface Transaction {
  transactional_id: string; producer_id: number; producer_epoch: number; phase: string; timeout_ms: number; began_ms: number;
  partitions: { topic: string; partition: number }[]; groups: string[];
}
const ENDING = ["committing", "aborting"], SHOWN = 200;

export function stateOf(one: Transaction, now: number): { words: string; bad: boolean } {
  const age = one.began_ms < 0 ? 0 : now - one.began_ms;
  if (one.phase === "ongoing" && age > one.timeout_ms + 10_000) return { words: "hanging: older than its time-out", bad: true };
  if (ENDING.includes(one.phase) && age > one.timeout_ms + 60_000) return { words: `hanging: ${one.phase}, and its markers are not written`, bad: true };
  return { words: one.phase === "ongoing" ? "open" : one.phase, bad: false };
}
export function TransactionsPage() {
  const state = useSignal("open"), chosen = useSignal("");
  const now = clusterTime();
  const pages = usePages<Transaction>("/v1/transactions", "transactions", { scope: "cluster", state: state.value }, `${Math.floor(now / 4_000)} ${renewal()}`);
  const selected = pages.found.value?.rows.find((one) => one.transactional_id === chosen.value);
  return <><h1>Transactions</h1><div class="row"><label>Show<select name="state" value={state.value} onChange={(event) => { state.value = event.currentTarget.value; chosen.value = ""; }}>
      <option value="open">open transactions</option><option value="all">all transactional ids</option></select></label></div>
    <Pager pages={pages} what={state.value === "open" ? "open transactions" : "transactional ids"} />
    <Table label="Transactions" heads={["Transactional id", "State", "#Age", "#Time-out", "#Partitions", "#Groups", "#Producer", ""]}>{pages.found.value?.rows.map((each) => {
      const { words, bad } = stateOf(each, now);
      return <tr key={each.transactional_id}><td class="wide">{visible(each.transactional_id)}</td><td class={bad ? "error" : each.phase === "ongoing" ? "warning" : ""}>{words}</td>
        <td class="n">{each.began_ms < 0 || !["ongoing", ...ENDING].includes(each.phase) ? "–" : ago(now - each.began_ms)}</td><td class="n">{ago(each.timeout_ms)}</td>
        <td class="n">{number(each.partitions.length)}</td><td class="n">{number(each.groups.length)}</td><td class="n">{each.producer_id}, epoch {each.producer_epoch}</td>
        <td><button type="button" aria-pressed={chosen.value === each.transactional_id} onClick={() => { chosen.value = each.transactional_id; }}>Details</button></td></tr>;
    })}</Table>{selected && <Detail one={selected} key={selected.transactional_id} again={pages.again} />}</>;
}
function Detail({ one, again }: { one: Transaction; again: () => void }) {
  const may = session.value?.transactional_id.includes("write") ?? false, open = one.phase === "ongoing";
  const abort = () => ask(`/v1/transactions/${encodeURIComponent(one.transactional_id)}/end`, "POST",
    { producer_id: one.producer_id, producer_epoch: one.producer_epoch, committed: false });
  return <section aria-label="The selected transaction"><h2>{visible(one.transactional_id)}</h2>
    {one.began_ms >= 0 && <p>It began at {when(one.began_ms)} UTC.</p>}
    {one.partitions.length > 0 && <p>Partitions: {one.partitions.slice(0, SHOWN).map((each, index) => <>{index > 0 && ", "}<a href={link("topics", each.topic)}>{visible(each.topic)}-{each.partition}</a></>)}
      {one.partitions.length > SHOWN && ` and ${number(one.partitions.length - SHOWN)} more`}. Readers of committed records wait for its end.</p>}
    {one.groups.length > 0 && <p>Groups: {one.groups.slice(0, SHOWN).map((each, index) => <>{index > 0 && ", "}<a href={link("groups", each)}>{visible(each)}</a></>)}</p>}
    <h2>Abort</h2><p class="dim">Its records are left out of reads of committed records, and its producer gets an error.</p>
    <Confirm name={one.transactional_id} what="Type the transactional id" text="Abort the transaction" allowed={may && open}
      why={may ? "It is not open." : "You may not end transactions."} act={abort} done={again} /></section>;
}
