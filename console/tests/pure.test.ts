// The parts of the console that do no IO. `npm test` runs them with Node's own runner.
import assert from "node:assert/strict";
import { test } from "node:test";
import { begun, grown, lacking, merged, type Answer, type Entry } from "../src/audited";
import { decoded, SHOWN } from "../src/bytes";
import { wants } from "../src/filter";
import { happened, known, remembered, type Sample } from "../src/happenings";
import { headersOf } from "../src/headers";
import { exact, indented } from "../src/json";
import { cancelled, changes as changedMoves, copied, partitionsOf, planned as planMoves, progress, recordsLeft, type Placed, type Wish as MoveWish } from "../src/moves";
import { changes, lagOf, lagOfAll, planned, type Place } from "../src/plan";
import { limitsOf, planned as plannedQuota, removal, shown, typed, whose } from "../src/quota";
import { typed as typedValue } from "../src/setting";
import { ago, fileName, meaning, printable, size, visible, when } from "../src/text";
import { amount, byteRate, megabytes } from "../src/units";

const place = (more: Partial<Place>): Place => ({ topic: "t", partition: 0, committed: 50, start: 10, end: 100, found: 70, ...more });

test("a reset goes to the beginning, the end, a time, an offset, or some offsets further", () => {
  const afters = (["earliest", "latest", "time"] as const).map((to) => planned([place({})], { to })[0]!.after);
  assert.deepEqual(afters, [10, 100, 70]);
  assert.equal(planned([place({})], { to: "offset", offset: 42 })[0]!.after, 42);
  assert.equal(planned([place({})], { to: "shift", by: -5 })[0]!.after, 45);
});
test("an offset of a plan lies within the log", () => {
  assert.equal(planned([place({})], { to: "offset", offset: 1e9 })[0]!.after, 100);
  assert.equal(planned([place({})], { to: "offset", offset: 0 })[0]!.after, 10);
  assert.equal(planned([place({})], { to: "shift", by: -1e9 })[0]!.after, 10);
  assert.equal(planned([place({ end: 10, found: 10 })], { to: "latest" })[0]!.lag, 0);
});
test("without a committed offset there is nothing to shift, and a plan says that others begin", () => {
  assert.deepEqual(planned([place({ committed: null })], { to: "shift", by: 5 }), []);
  const steps = planned([place({ committed: null }), place({ committed: 10 })], { to: "earliest" });
  assert.deepEqual(changes(steps).map((one) => one.before), [null]);
});
test("the lag counts records that are left, and not those that were deleted", () => {
  assert.equal(lagOf(place({})), 50);
  assert.equal(lagOf(place({ committed: 2 })), 90);
  assert.equal(lagOf(place({ committed: 200 })), 0);
  assert.equal(lagOf(place({ committed: null })), null);
  assert.equal(lagOf(place({ end: -1 })), null);
});
test("a filter looks where it is told", () => {
  const record = { key: "Order-1", value: '{"city": "Paris", "lines": [{"sku": "X"}], "none": null}', headers: [["trace", "AbC"]] as [string, string][] };
  const found = (place: string, text: string, one: object = record) => wants({ place, text } as never)(one as never);
  assert.ok(found("any", "ORDER") && found("any", "paris") && !found("any", "abc"));
  assert.ok(found("key", "order") && !found("key", "paris") && found("value", "Paris") && !found("value", "order"));
  assert.ok(found("header", "abc") && found("header", "TRACE") && !found("header", "paris"));
  assert.ok(found("json", "city=par") && found("json", "lines[0].sku=x") && found("json", "none=null") && found("json", "lines"));
  assert.ok(!found("json", "city=Rome") && !found("json", "lines[1].sku") && !found("json", "__proto__") && !found("json", "city.length"));
  assert.ok(!found("json", "a=1", { key: null, value: "{broken" }) && !found("json", "a=1", { key: null, value: null }) && found("key", "", { key: null, value: null }));
});
test("control characters and those that turn text are shown by number", () => {
  assert.equal(printable("a\u0000\u001b[31m\u202eb\u2066"), "a\\u0000\\u001b[31m\\u202eb\\u2066");
  assert.equal(visible("a\nb\tc"), "a b c");
  assert.equal(visible(null), "(null)");
  assert.equal(visible("x".repeat(1_000_000)).length, 300);
});
test("names of files hold no path", () => {
  assert.equal(fileName("../../etc/passwd", 0, "12"), ".._.._etc_passwd-0-12");
  assert.equal(fileName("\u202e<x>"), "_x_");
});
test("sizes, ages and times", () => {
  assert.deepEqual([size(999), size(1_500), size(2e12), size(null)], ["999 B", "1.5 kB", "2 TB", "–"]);
  assert.deepEqual([ago(500), ago(1_999), ago(90_000), ago(8 * 86_400_000), ago(-5)], ["500 ms", "1999 ms", "90 s", "8 d", "0 ms"]);
  assert.equal(when(0), "1970-01-01 00:00:00.000");
  assert.equal(when(1e300), "1e+300");
  assert.deepEqual([meaning("retention_ms", 604_800_000), meaning("segment_bytes", 268_435_456), meaning("x", 5), meaning("retention_ms", -1)], ["7 d", "268 MB", "", ""]);
});
test("headers are one a line", () => {
  assert.deepEqual(headersOf("a: 1\n\nb:x:y\n"), [{ key: "a", value: "1" }, { key: "b", value: "x:y" }]);
  assert.throws(() => headersOf("nothing"), /expected "name: value"/);
});
const sample = (more: Partial<Sample>): Sample => ({ at_ms: 1, level: "healthy", alerts: [], controllers: [{ node_id: 101, state: "active" }],
  brokers: [{ node_id: 1, state: "ok", partitions_led: 3 }, { node_id: 2, state: "ok", partitions_led: 3 }], ...more });
test("a failover is told in words, newest first, and the list is bounded", () => {
  const after = sample({ at_ms: 9, alerts: [{ text: "no answer from broker 2" }], controllers: [{ node_id: 101, state: "silent" }, { node_id: 102, state: "active" }],
    brokers: [{ node_id: 1, state: "ok", partitions_led: 6 }, { node_id: 2, state: "silent", partitions_led: null }] });
  const told = happened(sample({}), after);
  assert.deepEqual(told.map((one) => one.text), ["controller 101: active, now silent", "controller 102: unknown, now active", "broker 2: ok, now silent",
    "broker 1 leads 6 partitions, before 3", "no answer from broker 2"]);
  assert.deepEqual(told.map((one) => one.bad), [true, false, true, false, true]);
  assert.deepEqual(happened(after, after), []);
  assert.equal(happened(after, sample({})).at(-1)!.text, "no longer: no answer from broker 2");
  let list = remembered([], [...told]);
  assert.equal(list[0]!.text, "no answer from broker 2");
  for (let round = 0; round < 100; round += 1) list = remembered(list, [...told]);
  assert.equal(list.length, 200);
});
test("leaderships of a broker that did not answer for a while are compared with those before", () => {
  const silent = sample({ at_ms: 2, brokers: [{ node_id: 1, state: "no answer", partitions_led: null }, { node_id: 2, state: "ok", partitions_led: 3 }] });
  const back = sample({ at_ms: 3, brokers: [{ node_id: 1, state: "ok", partitions_led: 6 }, { node_id: 2, state: "ok", partitions_led: 3 }] });
  const told = happened(known(known(null, sample({})), silent), back).map((one) => one.text);
  assert.deepEqual(told, ["broker 1: no answer, now ok", "broker 1 leads 6 partitions, before 3"]);
});
test("an alert whose number changes is not told again", () => {
  const with_ = (text: string) => sample({ alerts: [{ text }] });
  assert.deepEqual(happened(with_("1,209 partitions under-replicated"), with_("21 partitions under-replicated")), []);
  assert.equal(happened(with_("21 partitions under-replicated"), sample({}))[0]!.text, "no longer: partitions under-replicated");
});
const at = (partition: number, ...replicas: number[]): Placed => ({ partition, replicas, adding: [], removing: [] });
const brokers = (...ids: number[]) => ids.map((broker_id) => ({ broker_id, rack: "" }));
const wish = (more: Partial<MoveWish> & { brokers: MoveWish["brokers"] }): MoveWish => ({ partitions: new Set([0, 1, 2, 3, 4, 5]), replicas: 3, leader: null, ...more });
const six = [at(0, 1, 2, 3), at(1, 2, 3, 1), at(2, 3, 1, 2), at(3, 1, 2, 3), at(4, 2, 3, 1), at(5, 3, 1, 2)];
const times = (lists: number[][]) => lists.flat().reduce<Record<number, number>>((sum, one) => ({ ...sum, [one]: (sum[one] ?? 0) + 1 }), {});
test("partitions are all, numbers or ranges, and others are refused", () => {
  assert.deepEqual([...partitionsOf("all", 3)], [0, 1, 2]);
  assert.deepEqual([...partitionsOf("0, 4-6,4", 9)], [0, 4, 5, 6]);
  for (const wrong of ["9", "3-1", "0-99999999", "1;2", "-1", "x".repeat(1e5)]) assert.throws(() => partitionsOf(wrong, 9), /Partitions: /);
});
test("a broker is emptied: what can stay stays, and leaders are spread", () => {
  const found = planMoves(six, wish({ brokers: brokers(2, 3, 4) }), () => 100);
  assert.deepEqual(found.map((one) => [one.added, one.removed]), Array(6).fill([[4], [1]]));
  assert.deepEqual(times(found.map((one) => one.after.slice(0, 1))), { 2: 2, 3: 2, 4: 2 });
  assert.deepEqual(copied(found), { bytes: 600, most: 600 });
});
test("a new broker gets its part, and no more is copied than that", () => {
  const found = planMoves(six, wish({ brokers: brokers(1, 2, 3, 4) }), () => 100);
  const held = times(found.map((one) => one.after));
  assert.deepEqual(Object.values(held).sort(), [4, 4, 5, 5]);
  assert.equal(found.reduce((sum, one) => sum + one.added.length, 0), held[4]);
  assert.ok(found.every((one) => new Set(one.after).size === 3));
});
test("one partition goes to exactly these brokers, and its preferred leader is chosen", () => {
  const [one] = planMoves(six, wish({ partitions: new Set([2]), brokers: brokers(4, 5, 3), leader: 5 }), () => null);
  assert.deepEqual([one!.before, one!.after[0], [...one!.after].sort(), one!.bytes], [[3, 1, 2], 5, [3, 4, 5], null]);
  assert.deepEqual(copied([one!]), { bytes: null, most: null });
});
test("fewer or more replicas, and never more than brokers", () => {
  assert.deepEqual(planMoves(six, wish({ brokers: brokers(1, 2, 3), replicas: 2 }), () => 1).map((one) => one.added), Array(6).fill([]));
  assert.ok(planMoves(six, wish({ brokers: brokers(1, 2, 3, 4), replicas: 4 }), () => 1).every((one) => one.bytes === 1));
  assert.throws(() => planMoves(six, wish({ brokers: brokers(1, 2) }), () => 1), /expected 1 to 2/);
  assert.throws(() => planMoves(six, wish({ brokers: [] }), () => 1), /Replicas: /);
});
test("racks are not shared while there are enough", () => {
  const places = [1, 2, 3, 4, 5, 6].map((broker_id) => ({ broker_id, rack: "abc"[broker_id % 3]! }));
  const found = planMoves(Array.from({ length: 9 }, (_, number) => at(number, 1, 2, 3)), wish({ partitions: partitionsOf("all", 9), brokers: places }), () => 1);
  assert.ok(found.every((one) => new Set(one.after.map((broker) => broker % 3)).size === 3));
  assert.deepEqual(Object.values(times(found.map((one) => one.after))).sort(), [4, 4, 4, 5, 5, 5]);
});
test("a plan that changes nothing says so, also for a partition that moves there already", () => {
  assert.deepEqual(changedMoves(planMoves(six, wish({ brokers: brokers(1, 2, 3) }), () => 1), six), []);
  const moving = [{ partition: 0, replicas: [4, 2, 3, 1], adding: [4], removing: [1] }];
  const wanted = (...ids: number[]) => planMoves(moving, wish({ partitions: new Set([0]), brokers: brokers(...ids), leader: ids[0]! }), () => 1);
  assert.deepEqual(wanted(4, 2, 3)[0]!.before, [2, 3, 1]);
  assert.deepEqual(changedMoves(wanted(4, 2, 3), moving), []);
  assert.equal(changedMoves(wanted(5, 2, 3), moving).length, 1);
  const wish3 = wish({ brokers: brokers(1, 2, 3) }), more = planMoves(Array.from({ length: 6 }, (_, number) => at(number, 1 + number % 3)), wish3, () => 0);
  const half = more.map((one): Placed => ({ partition: one.partition, replicas: one.after, adding: one.partition < 4 ? one.added : [], removing: [] }));
  assert.deepEqual(changedMoves(planMoves(half, wish3, () => 0), half), []);
});
test("10,000 partitions are planned at once", () => {
  const many = Array.from({ length: 10_000 }, (_, number) => at(number, 1 + number % 5, 1 + (number + 1) % 5, 1 + (number + 2) % 5)), began = performance.now();
  const found = planMoves(many, wish({ partitions: partitionsOf("all", 10_000), brokers: brokers(1, 2, 3, 4, 5, 6, 7, 8) }), () => 1);
  assert.deepEqual(Object.values(times(found.map((one) => one.after))), Array(8).fill(3_750));
  assert.ok(performance.now() - began < 3_000);
});
test("the progress of a move", () => {
  const log = { log_start_offset: 100, log_end_offset: 300 };
  assert.deepEqual([progress(50, log), progress(0, log), progress(500, log), progress(null, log), progress(5, undefined)], [0.75, 1, 0, null, null]);
  assert.equal(progress(0, { log_start_offset: 7, log_end_offset: 7 }), 1);
  const to = (log_end_offset: number) => ({ log_start_offset: 100, log_end_offset });
  assert.deepEqual([recordsLeft(200, log, [to(250), to(280)]), recordsLeft(20, log, [to(250)]), recordsLeft(null, log, [to(310)])], [50, 20, 0]);
  assert.deepEqual([recordsLeft(200, log, [to(250), undefined]), recordsLeft(null, undefined, [to(1)]), recordsLeft(7, log, [])], [200, null, 7]);
});
test("amounts as people write them", () => {
  assert.deepEqual(["20", " 1.5 GB", "500 kB/s", "1 B", "2 MiB/s", ""].map((one) => byteRate(one, "x")), [20e6, 1.5e9, 500e3, 1, 2_097_152, null]);
  for (const wrong of ["0", "-1", "many", "1 km", "1e9", "1.2.3", "9".repeat(99)]) assert.throws(() => byteRate(wrong, "Writes"), /Writes: expected/);
  assert.deepEqual([amount("12.5 %", "x", "%"), amount("7", "x"), amount(" ", "x")], [12.5, 7, null]);
  for (const wrong of ["0", "-3", "5 %%", "NaN", "Infinity"]) assert.throws(() => amount(wrong, "Requests", "%"), /Requests: expected/);
  assert.deepEqual([12_345_678, 10e6, 1].map((one) => [megabytes(one), byteRate(megabytes(one), "x")]), [["12.345678", 12_345_678], ["10", 10e6], ["0.000001", 1]]);
});
test("a quota's change is what was typed, and a value that was not edited stays to the last digit", () => {
  const before = { producer_byte_rate: 12_345_678, request_percentage: 12.5, consumer_byte_rate: 1234.5 };
  const texts = Object.fromEntries(Object.entries(before).map(([name, value]) => [name, typed(name, value)]));
  assert.deepEqual(plannedQuota(before, texts), []);
  const steps = plannedQuota(before, { ...texts, producer_byte_rate: "20", request_percentage: "", request_rate: "300" });
  assert.deepEqual(limitsOf(steps), { producer_byte_rate: 20e6, request_rate: 300, request_percentage: null });
  assert.deepEqual(plannedQuota({}, { producer_byte_rate: "", request_percentage: "5 %" }), [{ name: "request_percentage", before: null, after: 5 }]);
  assert.throws(() => plannedQuota({}, { request_rate: "many" }), /Requests: expected a number above 0, received many/);
  assert.throws(() => plannedQuota({}, { consumer_byte_rate: "0" }), /Reads: expected/);
  assert.deepEqual(limitsOf(removal({ user: "u", client_id: "", limits: before })), { producer_byte_rate: null, request_percentage: null, consumer_byte_rate: null });
});
test("limits in units that people read", () => {
  assert.deepEqual([shown("producer_byte_rate", 10e6), shown("consumer_byte_rate", 12_345_678), shown("producer_byte_rate", 500_000), shown("producer_byte_rate", 5)],
    ["10 MB/s", "12.345678 MB/s", "500 kB/s", "5 B/s"]);
  assert.deepEqual([shown("request_percentage", 12.5), shown("request_rate", 3000), shown("request_rate", null), shown("later", 7)], ["12.5 %", "3,000 a second", "no limit", "7"]);
});
test("whose a quota is, in words", () => {
  assert.deepEqual([["a", ""], ["*", ""], ["", "*"], ["a", "b"], ["*", "*"]].map(([user, client_id]) => whose({ user: user!, client_id: client_id! })),
    ["user a", "each user without a quota of its own", "each client id without a quota of its own", "user a and client id b", "each user without a quota of its own and each client id without a quota of its own"]);
});
const entry = (second: number, more: Partial<Entry> = {}): Entry => ({ time: `2026-01-31T12:00:${String(second).padStart(2, "0")}.000+00:00`, node: "", event: "change", principal: "",
  address: "", operation: "", resource: String(second), outcome: "", reason: "", line: "", ...more });
const answer = (broker_id: number, seconds: number[], next = "", kept: Answer["kept"] = "file"): Answer =>
  ({ broker_id, kept, entries: seconds.map((one) => entry(one)), reached: entry(seconds.at(-1) ?? 0).time, next });
test("audit lines of brokers are one list, and older lines wait for a broker that has more", () => {
  const one = grown(begun(1), answer(1, [50, 40, 30], "1-9")), two = grown(begun(2), answer(2, [45, 20, 10]));
  const first = merged([one, two]);
  assert.deepEqual(first.rows.map((row) => [row.broker, row.resource]), [[1, "50"], [2, "45"], [1, "40"], [1, "30"]]);
  assert.deepEqual([first.waits, first.reached], [[1], entry(30).time]);
  const all = merged([grown(one, answer(1, [15])), two]);
  assert.deepEqual(all.rows.map((row) => row.resource), ["50", "45", "40", "30", "20", "15", "10"]);
  assert.deepEqual(all.waits, []);
});
test("a page of the audit log that found nothing is no end, and damaged lines stay where they are", () => {
  const empty = merged([grown(begun(1), { broker_id: 1, kept: "file", entries: [], reached: entry(30).time, next: "1-5" }), grown(begun(2), answer(2, [50, 20]))]);
  assert.deepEqual([empty.rows.map((row) => row.resource), empty.waits], [["50"], [1]]);
  const damaged = { ...begun(1), entries: [entry(50), entry(0, { time: "", resource: "damaged" }), entry(40), entry(0, { time: "x", resource: "odd" })] };
  assert.deepEqual(merged([damaged, { ...begun(2), entries: [entry(45)] }]).rows.map((row) => row.resource), ["50", "damaged", "45", "40", "odd"]);
  assert.deepEqual(merged([]), { rows: [], waits: [], reached: "" });
});
test("brokers without an audit log are named", () => {
  assert.deepEqual(lacking([{ ...begun(1), kept: "none" }, { ...begun(2), kept: "none" }]), ["No broker keeps an audit log. It needs security.authorizer and security.audit_file."]);
  const some = lacking([{ ...begun(1), kept: "none" }, { ...begun(2), kept: "file" }, { ...begun(3), error: "gone" }, { ...begun(4), kept: "log" }]);
  assert.deepEqual(some.map((one) => one.slice(0, 30)), ["Broker 3: gone", "Broker 4: the audit log goes t", "Broker 1: there is no audit lo"]);
});
test("indented JSON has every literal as it was written", () => {
  assert.equal(indented('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(indented("{torn"), "{torn");
  assert.equal(indented('{"id": 9007199254740993, "price":1.10,"id":1e400,"e":[ ],"o":{}, "t":"a\\"{,\\u0041"}'),
    '{\n  "id": 9007199254740993,\n  "price": 1.10,\n  "id": 1e400,\n  "e": [],\n  "o": {},\n  "t": "a\\"{,\\u0041"\n}');
  const plain = { a: [1, [true, null], { b: "x y", c: [] }], d: "" };
  assert.equal(indented(JSON.stringify(plain)), JSON.stringify(plain, null, 2));
});
test("indenting a value of 64 kB is bounded, however deep it is", () => {
  assert.ok(indented("[".repeat(32_768) + "]".repeat(32_768)).length < 20_000_000);
  assert.equal(indented(JSON.stringify("\\".repeat(30_000))), JSON.stringify("\\".repeat(30_000)));
});
test("whole numbers that a script cannot hold are read as text, and saved so", () => {
  assert.deepEqual(exact('{"a":9223372036854775807,"b":[-9223372036854775807,5,1.5],"9223372036854775807":"9223372036854775807"}'),
    { a: "9223372036854775807", b: ["-9223372036854775807", 5, 1.5], "9223372036854775807": "9223372036854775807" });
  assert.deepEqual([typedValue("9223372036854775807", 5), typedValue(" 7 ", 5), typedValue("7", "x"), typedValue("true", false), typedValue("1.5", 2), typedValue("many", 5)],
    ["9223372036854775807", 7, "7", true, 1.5, "many"]);
});
test("a large text is cut at a character, in every language", () => {
  for (const each of ["x", "\u00e9", "\u2603", "\u{1f600}"]) for (let before = 0; before < 4; before += 1) {
    const data = new TextEncoder().encode("a".repeat(before) + each.repeat(SHOWN)), { shown, kind } = decoded(data);
    assert.equal(kind, "text");
    assert.ok(new TextEncoder().encode(shown!).length > SHOWN - 4 && (("a".repeat(before) + each.repeat(SHOWN)).startsWith(shown!)));
  }
});
test("bytes that are no text are shown by number, and a text of JSON is told", () => {
  assert.deepEqual(decoded(new Uint8Array([255, 0])), { shown: "ff 00", kind: "hex" });
  assert.deepEqual([decoded(null), decoded(new TextEncoder().encode(" [1]"))], [{ shown: null, kind: "null" }, { shown: " [1]", kind: "json" }]);
  assert.equal(decoded(new TextEncoder().encode(`["${"\u2603".repeat(SHOWN)}"]`)).kind, "json");
  for (const one of [0x80, 0xff]) assert.equal(decoded(new Uint8Array(2 * SHOWN).fill(one)).kind, "hex");
  assert.equal(decoded(new Uint8Array([0xe2, 0x98])).kind, "hex");
});
test("the lag of a group counts at least what is known", () => {
  const row = (error: string, end = 100) => ({ ...place({ end }), error });
  assert.deepEqual(lagOfAll([row(""), row("")]), { records: 100, unknown: 0 });
  assert.deepEqual(lagOfAll([row(""), row("the leader does not answer", -1)]), { records: 50, unknown: 1 });
});
test("moves that end while they are cancelled do not keep others from it", async () => {
  const ended = Object.assign(new Error("t-0 is not being reassigned"), { code: "NO_REASSIGNMENT_IN_PROGRESS" });
  const sent: number[][] = [], all = [0, 1, 2].map((partition) => ({ partition }));
  const cancel = async (some: { partition: number }[]) => { sent.push(some.map((one) => one.partition)); if (some.length > 1) throw ended; };
  const lists = [[1, 2], [2]];
  await cancelled(all, cancel, async () => lists.shift()!.map((partition) => ({ partition })), async () => undefined);
  assert.deepEqual(sent, [[0, 1, 2], [1, 2], [2]]);
  await cancelled(all, cancel, async () => [], async () => undefined);
  assert.equal(sent.length, 4);
  await assert.rejects(cancelled(all, cancel, async () => all, async () => undefined), ended);
  assert.equal(sent.length, 9);
  const other = new Error("no controller");
  await assert.rejects(cancelled(all, async () => { throw other; }, async () => all, async () => undefined), other);
});
