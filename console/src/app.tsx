import { signal } from "@preact/signals";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { ApiError, expired, findSession, forget, logIn, mustLogIn, session } from "./api";
import { AuditPage } from "./audit";
import { BrokerPage, BrokersPage } from "./brokers";
import { GroupPage, GroupsPage } from "./groups";
import { follow, trouble } from "./live";
import { Overview } from "./overview";
import { RecordsPage } from "./records";
import { SecurityPage } from "./security";
import { SettingsPage } from "./settings";
import { TopicPage, TopicsPage } from "./topics";
import { TransactionsPage } from "./transactions";

const route = signal(location.hash.slice(1) || "/");
addEventListener("hashchange", () => { route.value = location.hash.slice(1) || "/"; });
const failure = signal("");
const LINKS: [string, string][] = [["", "Overview"], ["topics", "Topics"], ["groups", "Groups"], ["brokers", "Brokers"], ["transactions", "Transactions"],
  ["security", "Security"], ["audit", "Audit"], ["settings", "Settings"]];

function Login() {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.target as HTMLFormElement);
    logIn(String(given.get("user")), String(given.get("password"))).then(
      () => { failure.value = ""; mustLogIn.value = false; void follow(); },
      (error: Error) => { failure.value = error.message; },
    );
  };
  return <main><h1>Log in</h1>{expired.value && <p role="status" class="warning">The session has expired.</p>}
    <form onSubmit={submit}>
      <label>User<input name="user" autocomplete="username" required /></label>
      <label>Password<input name="password" type="password" autocomplete="current-password" required /></label>
      <button type="submit">Log in</button>
    </form>
    <p role="alert" class="error">{failure.value}</p></main>;
}
function decoded(part: string): string {
  try { return decodeURIComponent(part); } catch { return part; }
}
function Page() {
  const [, page, name, more] = route.value.split("/").map(decoded);
  useEffect(() => {
    const title = more ? "Records" : LINKS.find(([path]) => path === (page ?? ""))?.[1] ?? "Overview";
    document.title = `raftlog: ${title}`;
  }, [route.value]);
  if (page === "topics" && name && more === "records") return <RecordsPage topic={name} key={name} />;
  if (page === "topics") return name ? <TopicPage topic={name} key={name} /> : <TopicsPage />;
  if (page === "groups") return name ? <GroupPage group={name} key={name} /> : <GroupsPage />;
  const broker = name !== undefined && /^\d{1,9}$/.test(name) ? Number(name) : null;
  if (page === "brokers") return broker === null ? <BrokersPage /> : <BrokerPage broker={broker} key={name} />;
  if (page === "settings") return <SettingsPage broker={broker} key={name} />;
  return page === "transactions" ? <TransactionsPage /> : page === "security" ? <SecurityPage /> : page === "audit" ? <AuditPage /> : <Overview />;
}
function Who() {
  const { authorizer, principal, broker_id } = session.value!;
  const leave = () => { forget(); location.reload(); };
  return <span class="who">{authorizer === "off" ? `Broker ${broker_id}, open to everyone` : `${principal} at broker ${broker_id} `}
    {authorizer !== "off" && <button onClick={leave}>Log out</button>}</span>;
}
function skip(event: Event) {
  event.preventDefault();
  const heading = document.querySelector<HTMLElement>("main h1");
  if (heading) { heading.tabIndex = -1; heading.focus(); }
}
function App() {
  const at = decoded(route.value.split("/")[1] ?? "");
  return <><a class="skip" href="#main" onClick={skip}>Skip to the page</a>
    <header><strong>raftlog</strong><nav aria-label="Pages">{LINKS.map(([path, text]) =>
      <a href={`#/${path}`} aria-current={at === path ? "page" : undefined} key={path}>{text}</a>)}</nav>
      {session.value && <Who />}</header>
    {mustLogIn.value ? <Login /> : session.value ? <main>{trouble.value && <div class="alert warning" role="status"><p>{trouble.value}</p></div>}<Page /></main> : <main><p role="alert">{failure.value}</p></main>}</>;
}
findSession().then(() => { if (!mustLogIn.value) void follow(); }, (error: ApiError) => {
  if (error.status !== 401) failure.value = error.message;
});
const root = document.getElementById("app")!;
root.replaceChildren();
render(<App />, root);
