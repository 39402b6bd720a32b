// SCRAM-SHA-256 (RFC 5802, RFC 7677): the password does not leave the browser.
const bytes = (text: string) => new TextEncoder().encode(text);
const base64 = (data: ArrayBuffer | Uint8Array) => btoa(String.fromCharCode(...new Uint8Array(data)));
const unbase64 = (text: string) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));

async function hmac(key: BufferSource, text: string): Promise<Uint8Array> {
  const made = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", made, bytes(text)));
}
async function post(body: object): Promise<{ message: string; access_token?: string }> {
  const answer = await fetch("/v1/login", { method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error?.message ?? "The login failed.");
  return found;
}
export async function scramLogin(user: string, password: string): Promise<string> {
  if (!crypto.subtle) throw new Error("A login needs https, or a broker on this machine.");
  const nonce = base64(crypto.getRandomValues(new Uint8Array(18)));
  const bare = `n=${user.replace(/=/g, "=3D").replace(/,/g, "=2C")},r=${nonce}`;
  const challenge = (await post({ message: `n,,${bare}` })).message;
  const fields = Object.fromEntries(challenge.split(",").map((one) => [one[0], one.slice(2)]));
  const rounds = Number(fields.i);
  if (!fields.r?.startsWith(nonce) || !(rounds >= 4096 && rounds <= 10_000_000)) throw new Error("The broker's challenge is wrong.");
  const key = await crypto.subtle.importKey("raw", bytes(password.normalize("NFKC")), "PBKDF2", false, ["deriveBits"]);
  const salted = await crypto.subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt: unbase64(fields.s!), iterations: rounds }, key, 256);
  const clientKey = await hmac(salted, "Client Key");
  const stored = await crypto.subtle.digest("SHA-256", clientKey as BufferSource);
  const withoutProof = `c=biws,r=${fields.r}`, signed = `${bare},${challenge},${withoutProof}`;
  const signature = await hmac(stored, signed);
  const proof = base64(clientKey.map((each, index) => each ^ signature[index]!));
  const last = await post({ message: `${withoutProof},p=${proof}`, first: `n,,${bare}` });
  const own = base64(await hmac(await hmac(salted, "Server Key") as BufferSource, signed));
  if (last.message !== `v=${own}` || !last.access_token) throw new Error("The broker cannot prove that it stores this user.");
  return last.access_token;
}
