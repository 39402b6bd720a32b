// Requests to this broker. The token of a login lives in this tab only.
import { signal } from "@preact/signals";
import { exact } from "./json";
import { scramLogin } from "./scram";

export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string) { super(message); }
}
export interface Session {
  principal: string; authorizer: string; broker_id: number; cluster: string[]; topic: string[]; group: string[];
  transactional_id: string[];
}
export const token = signal(sessionStorage.getItem("raftlog-token") ?? "");
export const session = signal<Session | null>(null);
export const mustLogIn = signal(false), expired = signal(false);
const LONGEST_MS = 30_000;

// A change may take effect although its answer does not come.
const late = (method: string) => new ApiError(0, "TIMED_OUT", `This broker has not answered for ${LONGEST_MS / 1_000} s.${method === "GET" ? "" : " The change may have been made."}`);
const limited = (signal: AbortSignal | null | undefined) => AbortSignal.any([AbortSignal.timeout(LONGEST_MS), ...(signal ? [signal] : [])]);

export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers), sent = token.value;
  headers.set("Raftlog-Pass-On", "true"); // A page cannot follow a redirect to another broker.
  if (sent) headers.set("Authorization", `Bearer ${sent}`);
  if (init.body) headers.set("Content-Type", "application/json");
  const answer = await fetch(path, { ...init, headers, redirect: "error" }).catch((error: unknown) => {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "UNREACHABLE", "This broker does not answer.");
  });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null) as { error?: { code: string; message: string } } | null;
  if (answer.status === 401 && token.value === sent) { // Otherwise there was a login since then.
    if (sent) expired.value = true;
    forget(); mustLogIn.value = true;
  }
  throw new ApiError(answer.status, body?.error?.code ?? "", body?.error?.message ?? `The answer was ${answer.status}.`);
}
async function read(path: string, init: RequestInit): Promise<string> {
  try { return await (await send(path, { ...init, signal: limited(init.signal) })).text(); } catch (error) {
    throw (error as Error).name === "TimeoutError" ? late(init.method ?? "GET") : error;
  }
}
export async function ask<T>(path: string, method = "GET", body?: unknown, signal?: AbortSignal): Promise<T> {
  return JSON.parse(await read(path, { method, signal: signal ?? null, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })) as T;
}
// Whole numbers that a script cannot hold are texts in the answer.
export const askExactly = async <T>(path: string) => exact(await read(path, {})) as T;
export async function findSession(): Promise<void> {
  session.value = await ask<Session>("/console/api/session");
  mustLogIn.value = session.value.authorizer === "acl" && session.value.principal === "User:ANONYMOUS";
}
export async function rightsOn(kind: "topic" | "group", name: string): Promise<string[]> {
  return (await ask<Session>(`/console/api/session?${new URLSearchParams({ [kind]: name })}`))[kind];
}
export async function logIn(user: string, password: string): Promise<void> {
  token.value = await scramLogin(user, password);
  sessionStorage.setItem("raftlog-token", token.value);
  expired.value = false;
  await findSession();
}
export function forget(): void {
  token.value = ""; session.value = null; sessionStorage.removeItem("raftlog-token");
}
// Reads server-sent events of one answer: EventSource cannot send a token.
export async function readEvents(path: string, signal: AbortSignal, on: (name: string, data: string) => void): Promise<void> {
  const reader = (await send(path, { signal })).body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop()!;
    for (const part of parts) {
      const lines = part.split("\n");
      const name = lines.find((line) => line.startsWith("event: "))?.slice(7);
      const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
      if (name && data) on(name, data);
    }
  }
}
