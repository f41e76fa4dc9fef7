// The console's interface: JSON calls with the session's token, and the socket of a tab.
import { signal } from "@preact/signals";

export interface Session {
  token: string;
  version: string;
  read_only: boolean;
  anonymous: boolean;
  clusters: string[];
  mechanisms: string[];
  users: Record<string, { user: string; kept: string }>;
}

// How one comes in: by the console's link, or, where there are mechanisms, as a user of a cluster.
export interface Way {
  mechanisms: string[];
  clusters?: string[];
  issuer?: string;
  failed?: string;
}

const NOT_LOGGED_IN = 40102;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly body: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

export const session = signal<Session | null>(null);
export const loginError = signal<string>("");
export const way = signal<Way>({ mechanisms: [] });

// What the server has put into the page itself: the session, and what its first page shows. Each is used once.
const given: Record<string, unknown> = JSON.parse(document.getElementById("given")?.textContent || "{}");

export function taken<T>(path: string): T | null {
  const found = (given[path] ?? null) as T | null;
  delete given[path];
  return found;
}

// Of which look of the sampler the newest answer is.
let newest = 0;
export const isNewer = (at: unknown): boolean => typeof at === "number" && at > newest;

export function noted<T>(answer: T): T {
  const at = (answer as { sampled_at?: unknown } | null)?.sampled_at;
  if (isNewer(at)) newest = at as number;
  return answer;
}

export async function call<T>(path: string, options: { method?: string; body?: unknown; signal?: AbortSignal } = {}): Promise<T> {
  const headers: Record<string, string> = {};
  if (options.body !== undefined || (options.method ?? "GET") !== "GET") {
    headers["Content-Type"] = "application/json";
    headers["X-Ottla-Token"] = session.value?.token ?? "";
  }
  let answer: Response;
  try {
    answer = await fetch(path, {
      method: options.method ?? "GET",
      headers,
      credentials: "same-origin",
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      ...(options.signal ? { signal: options.signal } : {}),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The console does not answer: is its process still running?");
  }
  const text = await answer.text();
  let body: Record<string, unknown> = {};
  try {
    body = text ? (JSON.parse(text) as Record<string, unknown>) : {};
  } catch {
    body = {};
  }
  if (!answer.ok) {
    if (answer.status === 401 && body["error_code"] !== NOT_LOGGED_IN) session.value = null;
    throw new ApiError(answer.status, String(body["message"] ?? answer.statusText), body);
  }
  return noted(body as T);
}

// Begin with the session that the page has brought; false where one has to ask, or to come in by a key.
export function begin(): boolean {
  if (linkKey() || new URLSearchParams(location.search).has("failed")) return false;
  session.value = taken<Session>("/api/session");
  if (session.value && session.value.mechanisms.length > 0) void askDoor(); // it may be open to one cluster only
  return session.value !== null;
}

const linkKey = () => new URLSearchParams(location.hash.slice(1)).get("key");

async function askDoor(failed: string | null = null): Promise<void> {
  way.value = await call<Way>(`/api/door${failed ? `?failed=${encodeURIComponent(failed)}` : ""}`).catch(() => way.value);
}

// The key of the link comes behind `#`, so that no server and no log sees it.
export async function enter(): Promise<void> {
  const key = linkKey();
  if (key) {
    history.replaceState(null, "", location.pathname + location.search);
    try {
      session.value = await begun({ key });
      return;
    } catch (error) {
      loginError.value = (error as Error).message;
    }
  }
  const failed = new URLSearchParams(location.search).get("failed");
  if (failed) history.replaceState(null, "", location.pathname);
  await askDoor(failed);
  try {
    session.value = taken<Session>("/api/session") ?? (await call<Session>("/api/session"));
    loginError.value = "";
  } catch (error) {
    if (!loginError.value && way.value.mechanisms.length === 0) loginError.value = (error as Error).message;
  }
}

// What the page has brought is of the session before.
function begun(body: Record<string, string>): Promise<Session> {
  for (const each of Object.keys(given)) delete given[each];
  return call<Session>("/api/login", { method: "POST", body });
}

export async function logIn(cluster: string, mechanism: string, user: string, password: string): Promise<void> {
  session.value = await begun({ cluster, mechanism, user, password });
}

export async function logInByCertificate(cluster: string): Promise<void> {
  session.value = await begun({ cluster, mechanism: "CERTIFICATE" });
}

// Where the issuer's page is, from which one comes back to this one.
export function issuerPage(cluster: string): string {
  const to = location.pathname.startsWith("/c/") ? location.pathname + location.search : "/";
  return `/api/login/issuer?${new URLSearchParams({ cluster, to })}`;
}

export async function logOut(): Promise<void> {
  await call("/api/logout", { method: "POST", body: {} }).catch(() => undefined);
  session.value = null;
}

export interface Frame {
  sub: number;
  seq: number;
  type: string;
  [name: string]: unknown;
}

// One socket per cluster and tab; it opens again by itself, and asks again for what was asked for.
export class Live {
  private socket: WebSocket | null = null;
  private next = 1;
  private readonly subs = new Map<number, { kind: string; args: object; take: (frame: Frame) => void; once: boolean }>();
  private backoff = 500;
  private ended = false;
  readonly connected = signal(false);

  constructor(private readonly cluster: string) {
    newest = 0;
    this.open();
  }

  private open(): void {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/c/${encodeURIComponent(this.cluster)}/live`);
    this.socket = socket;
    socket.onopen = () => {
      this.backoff = 500;
      this.connected.value = true;
      for (const [number, sub] of this.subs) this.say({ sub: number, kind: sub.kind, args: sub.args });
    };
    socket.onmessage = (event) => {
      const frame = JSON.parse(String(event.data)) as Frame;
      const sub = this.subs.get(frame.sub);
      if (!sub) return;
      sub.take(frame);
      if (frame.type === "done" || frame.type === "error") this.subs.delete(frame.sub);
      else if (sub.kind !== "sample") requestAnimationFrame(() => this.say({ credit: frame.sub, frames: 1 }));
    };
    socket.onclose = () => {
      this.connected.value = false;
      for (const [number, sub] of [...this.subs]) {
        if (sub.once) {
          this.subs.delete(number);
          sub.take({ sub: number, seq: -1, type: "error", message: "The connection to the console broke off; ask again." });
        }
      }
      if (!this.ended) setTimeout(() => this.open(), (this.backoff = Math.min(2 * this.backoff, 8000)));
    };
  }

  private say(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  // Returns what ends it. A search is not asked for again where the socket breaks: it would show rows twice.
  listen(kind: string, args: object, take: (frame: Frame) => void): () => void {
    const number = this.next++;
    this.subs.set(number, { kind, args, take, once: kind !== "sample" });
    this.say({ sub: number, kind, args });
    return () => {
      if (this.subs.delete(number)) this.say({ unsub: number });
    };
  }

  close(): void {
    this.ended = true;
    this.socket?.close();
  }
}
