import { cluster, history, refusal, type Node } from "./live";
import { Chart, link } from "./parts";
import { number, rate, share, size, visible } from "./text";

function state(node: Node) {
  return <td class={["ok", "active", "standby"].includes(node.state) ? "ok" : "error"} title={node.error}>{node.state}</td>;
}
export function Overview() {
  const now = cluster.value;
  if (!now) return <><h1>Overview</h1><p role="status">{refusal.value || "Reading the cluster's state."}</p></>;
  const late = now.groups.filter((each) => each.lag_records > 0).slice(0, 10);
  const bytes = history.value.map((one) => [one[0]!, one[1]!, one[2]!]), records = history.value.map((one) => [one[0]!, one[3]!, one[4]!]);
  return <><h1>Cluster {now.cluster_id}: <span class={now.level === "healthy" ? "ok" : now.level} id="level">{now.level}</span></h1>
    <div aria-live="polite">{now.alerts.map((each) =>
      <div class={`alert ${now.level}`} key={each.text}><strong>{each.text}</strong><p>{each.advice}</p></div>)}</div>
    <div class="tiles">
      <div class="tile"><span>in</span><b>{rate(now.bytes_in_per_s)}</b></div>
      <div class="tile"><span>out</span><b>{rate(now.bytes_out_per_s)}</b></div>
      <div class="tile"><span>records in</span><b>{number(now.records_in_per_s)}/s</b></div>
      <div class="tile"><span>requests</span><b>{number(now.requests_per_s)}/s</b></div>
    </div>
    <div class="charts"><Chart title="Bytes a second" names={["in", "out"]} data={bytes} of={size} />
      <Chart title="Records a second" names={["in", "out"]} data={records} of={number} /></div>
    <h2>Brokers</h2><div class="scroll" tabIndex={0} role="region" aria-label="Brokers"><table><thead><tr><th>Broker</th><th>State</th>
      <th class="n">Leads</th><th class="n">Partitions</th><th class="n">Under-replicated</th><th class="n">Lag (records)</th>
      <th class="n">In</th><th class="n">Out</th><th class="n">CPU</th><th class="n">Memory</th><th class="n">Disk</th></tr></thead>
      <tbody>{now.brokers.map((each) => <tr key={each.node_id}><td><a href={link("brokers", each.node_id)} aria-label={`Broker ${each.node_id}`}>{each.node_id}</a></td>{state(each)}
        <td class="n">{number(each.partitions_led)}</td><td class="n">{number(each.partitions)}</td>
        <td class="n">{number(each.under_replicated)}</td><td class="n">{number(each.lag_records)}</td>
        <td class="n">{rate(each.bytes_in_per_s)}</td><td class="n">{rate(each.bytes_out_per_s)}</td>
        <td class="n">{share(each.cpu_share)}</td><td class="n">{size(each.rss_bytes)}</td><td class="n">{share(each.disk_used_share)}</td></tr>)}
      </tbody></table></div>
    <h2>Controllers</h2><div class="scroll" tabIndex={0} role="region" aria-label="Controllers"><table><thead><tr><th>Controller</th>
      <th>State</th><th class="n">Term</th><th class="n">Log end</th><th class="n">Lag</th><th class="n">CPU</th><th class="n">Memory</th></tr></thead>
      <tbody>{now.controllers.map((each) => <tr key={each.node_id}><td>{each.node_id}</td>{state(each)}<td class="n">{number(each.term)}</td>
        <td class="n">{number(each.log_end_offset)}</td><td class="n">{number(each.lag_entries)}</td><td class="n">{share(each.cpu_share)}</td>
        <td class="n">{size(each.rss_bytes)}</td></tr>)}</tbody></table></div>
    {late.length > 0 && <><h2>Groups with the most lag</h2><div class="scroll" tabIndex={0} role="region" aria-label="Groups"><table><thead><tr><th>Group</th><th class="n">Lag (records)</th></tr></thead>
      <tbody>{late.map((each) => <tr key={each.group}><td><a href={link("groups", each.group)}>{visible(each.group)}</a></td><td class="n">{number(each.lag_records)}</td></tr>)}
      </tbody></table></div></>}</>;
}
