// Moves of a topic's replicas: what they would change, before anything is sent. No IO.
export interface Placed { partition: number; replicas: number[]; adding: number[]; removing: number[] }
export interface Place { broker_id: number; rack: string }
export interface Wish { partitions: Set<number>; brokers: Place[]; replicas: number; leader: number | null }
export interface Move { partition: number; before: number[]; after: number[]; added: number[]; removed: number[]; bytes: number | null }

// `all`, or numbers and ranges such as 0,4-7.
export function partitionsOf(text: string, count: number): Set<number> {
  const wanted = text.trim();
  if (wanted === "" || wanted === "all") return new Set(Array.from({ length: count }, (_, at) => at));
  const found = new Set<number>();
  for (const part of wanted.split(",")) {
    const range = /^\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*$/.exec(part);
    if (!range) throw new Error(`Partitions: expected "all", or numbers such as 0,4-7, received ${wanted.slice(0, 60)}.`);
    const from = Number(range[1]), to = Number(range[2] ?? range[1]);
    if (from > to || to >= count) throw new Error(`Partitions: there are 0 to ${count - 1}, received ${part.trim()}.`);
    for (let one = from; one <= to; one += 1) found.add(one);
  }
  return found;
}
// A partition that moves already starts from the replicas before that move, as for the controller.
export const original = (one: Placed) => one.replicas.filter((broker) => !one.adding.includes(broker));
export const target = (one: Placed) => one.replicas.filter((broker) => !one.removing.includes(broker));

// The chosen partitions on the chosen brokers: as many replicas as possible stay where they are, the counts of replicas
// and of preferred leaders differ by one at most where racks allow it, and racks are not shared needlessly.
export function planned(all: Placed[], wish: Wish, sizeOf: (partition: number) => number | null): Move[] {
  if (wish.replicas < 1 || wish.replicas > wish.brokers.length) {
    throw new Error(`Replicas: expected 1 to ${wish.brokers.length}, the number of chosen brokers, received ${wish.replicas}.`);
  }
  const chosen = all.filter((one) => wish.partitions.has(one.partition)), ids = wish.brokers.map((one) => one.broker_id);
  const lists = chosen.map((one) => target(one).filter((broker) => ids.includes(broker)).slice(0, wish.replicas));
  const racks = new Map(wish.brokers.map((one) => [one.broker_id, one.rack || `broker ${one.broker_id}`]));
  fill(lists, ids, wish.replicas, racks);
  spread(lists, ids, racks);
  lead(lists, chosen.map((one) => target(one)[0]!), ids, wish.leader);
  return chosen.map((one, at) => {
    const before = original(one), after = lists[at]!, added = after.filter((broker) => !before.includes(broker));
    const bytes = sizeOf(one.partition);
    return { partition: one.partition, before, after, added, removed: before.filter((broker) => !after.includes(broker)),
      bytes: added.length === 0 ? 0 : bytes === null ? null : bytes * added.length };
  });
}
type Racks = Map<number, string>;
const counted = (lists: number[][], ids: number[]) => new Map(ids.map((id) => [id, lists.filter((list) => list.includes(id)).length]));
const racksOf = (list: number[], racks: Racks) => new Set(list.map((broker) => racks.get(broker))).size;

function fill(lists: number[][], ids: number[], replicas: number, racks: Racks): void {
  const held = counted(lists, ids);
  for (const list of lists) while (list.length < replicas) {
    const shares = (broker: number) => Number(list.some((other) => racks.get(other) === racks.get(broker)));
    const [next] = ids.filter((broker) => !list.includes(broker)).sort((a, b) => shares(a) - shares(b) || held.get(a)! - held.get(b)! || a - b);
    list.push(next!);
    held.set(next!, held.get(next!)! + 1);
  }
}
function spread(lists: number[][], ids: number[], racks: Racks): void {
  const held = counted(lists, ids);
  let start = 0; // Where the last one was found: those before it were looked at already.
  const fits = (list: number[], from: number, to: number) => list.includes(from) && !list.includes(to)
    && racksOf(list.map((broker) => (broker === from ? to : broker)), racks) >= racksOf(list, racks);
  const found = (from: number, to: number) => {
    for (const leaders of [false, true]) for (let step = 0; step < lists.length; step += 1) {
      const at = (start + step) % lists.length, list = lists[at]!;
      if ((list[0] === from) === leaders && fits(list, from, to)) { start = at; return list; }
    }
    return null;
  };
  const moved = (from: number, to: number) => {
    const list = held.get(from)! - held.get(to)! > 1 ? found(from, to) : null;
    if (!list) return false;
    list[list.indexOf(from)] = to;
    held.set(from, held.get(from)! - 1).set(to, held.get(to)! + 1);
    return true;
  };
  for (let again = true; again;) {
    const most = [...ids].sort((a, b) => held.get(b)! - held.get(a)! || a - b), least = [...most].reverse();
    again = most.some((from) => least.some((to) => moved(from, to)));
  }
}
function lead(lists: number[][], leaders: number[], ids: number[], wanted: number | null): void {
  const first = (list: number[], broker: number) => { list.splice(list.indexOf(broker), 1); list.unshift(broker); };
  lists.forEach((list, at) => { if (list.includes(wanted ?? leaders[at]!)) first(list, wanted ?? leaders[at]!); });
  if (wanted !== null) return;
  const led = new Map(ids.map((id) => [id, lists.filter((list) => list[0] === id).length]));
  for (let again = true; again;) {
    again = false;
    for (const list of lists) {
      const least = [...list].sort((a, b) => led.get(a)! - led.get(b)!)[0]!, now = list[0]!;
      if (led.get(now)! - led.get(least)! <= 1) continue;
      first(list, least);
      led.set(now, led.get(now)! - 1).set(least, led.get(least)! + 1);
      again = true;
    }
  }
}
export const same = (one: number[], other: number[]) => one.length === other.length && one.every((each, at) => each === other[at]);
// What the plan changes; of a partition that moves already, that it goes elsewhere.
export function changes(moves: Move[], all: Placed[]): Move[] {
  const now = new Map(all.map((one) => [one.partition, target(one)]));
  return moves.filter((one) => !same(one.after, now.get(one.partition) ?? []));
}

// How much is copied in all, and to the broker that gets most; null: a size is unknown.
export function copied(moves: Move[]): { bytes: number | null; most: number | null } {
  if (moves.some((one) => one.bytes === null)) return { bytes: null, most: null };
  const into = new Map<number, number>();
  for (const one of moves) for (const broker of one.added) into.set(broker, (into.get(broker) ?? 0) + one.bytes! / one.added.length);
  return { bytes: moves.reduce((sum, one) => sum + one.bytes!, 0), most: Math.max(0, ...into.values()) };
}
interface Log { log_start_offset: number; log_end_offset: number }
// How many records the slowest new replica lacks. The leader counts a record when the replica asks for the next one,
// which a limit delays; so the logs of new replicas count, too, where they are known.
export function recordsLeft(reported: number | null, log: Log | undefined, added: (Log | undefined)[]): number | null {
  if (!log || added.length === 0 || added.includes(undefined)) return reported;
  const stored = Math.max(0, log.log_end_offset - Math.min(...added.map((one) => one!.log_end_offset)));
  return reported === null ? stored : Math.min(reported, stored);
}
// The part of a partition's records that the slowest new replica has; null: unknown.
export function progress(left: number | null, log: Log | undefined): number | null {
  if (left === null || !log) return null;
  const records = log.log_end_offset - log.log_start_offset;
  return records <= 0 ? 1 : Math.min(1, Math.max(0, 1 - left / records));
}
const ATTEMPTS = 5, PAUSE_MS = 500;
// Cancels moves. The controller refuses all of them if one has just ended: those that still move are sent again.
export async function cancelled<T extends { partition: number }>(some: T[], cancel: (some: T[]) => Promise<unknown>, moving: () => Promise<{ partition: number }[]>,
  pause = () => new Promise<unknown>((wake) => setTimeout(wake, PAUSE_MS))): Promise<void> {
  let left = some;
  for (let attempt = 1; left.length > 0; attempt += 1) {
    try { await cancel(left); return; } catch (failed) {
      if ((failed as { code?: string }).code !== "NO_REASSIGNMENT_IN_PROGRESS" || attempt === ATTEMPTS) throw failed;
    }
    if (attempt > 1) await pause(); // This broker has yet to see the end.
    const numbers = new Set((await moving()).map((one) => one.partition));
    left = left.filter((one) => numbers.has(one.partition));
  }
}
