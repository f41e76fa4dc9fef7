// Who may do what: entries of access, "may X do Y?", and what is given to somebody by a template.
import { useSignal } from "@preact/signals";
import { call } from "../api";
import { count, plural } from "../format";
import { Choice, Field, Find, Head } from "../page";
import { Card, type Column, Empty, Pill, Rows, Shown, Tabs, needs } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded, useParam } from "../state";
import { Quotas } from "./quotas";
import { Users } from "./users";

interface Entry {
  resource_type: string;
  resource: string;
  pattern: string;
  principal: string;
  host: string;
  operation: string;
  permission: string;
}

interface Access {
  secured: boolean;
  items: Entry[];
  total: number;
  cursor: number | null;
  operations: string[];
}

const TYPES = ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"];
const OPERATIONS: Record<string, string[]> = {
  TOPIC: ["READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"],
  GROUP: ["READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"],
  CLUSTER: ["DESCRIBE", "CREATE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "CLUSTER_ACTION", "IDEMPOTENT_WRITE", "ALL"],
  TRANSACTIONAL_ID: ["DESCRIBE", "WRITE", "ALL"],
  DELEGATION_TOKEN: ["DESCRIBE", "ALL"],
  USER: ["CREATE_TOKENS", "DESCRIBE_TOKENS", "ALL"],
};
const CLUSTER_NAME = "kafka-cluster";

export default function AccessPage({ tab }: { tab: string }) {
  const { cluster } = useHere();
  const base = `/c/${cluster}/access`;
  return (
    <>
      <Head title="Access" sub={<span>Who may do what, with which passwords, and how much of it.</span>} />
      <Tabs
        label="Access"
        tabs={[
          { name: "Entries", href: base, here: tab === "entries" },
          { name: "May X do Y?", href: `${base}/check`, here: tab === "check" },
          { name: "Users", href: `${base}/users`, here: tab === "users" },
          { name: "Quotas", href: `${base}/quotas`, here: tab === "quotas" },
        ]}
      />
      {tab === "entries" && <Entries />}
      {tab === "check" && <Check />}
      {tab === "users" && <Users />}
      {tab === "quotas" && <Quotas />}
    </>
  );
}

const named = (entry: Entry): string => (entry.pattern === "PREFIXED" ? `${entry.resource}*` : entry.resource);

function Entries() {
  const { cluster } = useHere();
  const [q, setQ] = useParam("q");
  const [creating, setCreating] = useParam("new");
  const plan = useSignal<PlanRequest | null>(null);
  const loaded = useLoaded<Access>(`/api/c/${encodeURIComponent(cluster)}/access?q=${encodeURIComponent(q)}&limit=500`, false);
  const operations = loaded.data?.operations;
  const columns: Column<Entry>[] = [
    { name: "Principal", cell: (row) => row.principal },
    { name: "", cell: (row) => <Pill kind={row.permission === "ALLOW" ? "good" : "bad"}>{row.permission === "ALLOW" ? "may" : "may not"}</Pill> },
    { name: "Operation", cell: (row) => row.operation },
    { name: "On", cell: (row) => <span class="clip">{row.resource_type === "CLUSTER" ? "the cluster" : <>{row.resource_type.toLowerCase().replaceAll("_", " ")} <b>{named(row)}</b></>}</span> },
    { name: "From", hide: true, cell: (row) => (row.host === "*" ? <span class="dim">everywhere</span> : row.host) },
    {
      name: " ",
      num: true,
      hide: true,
      cell: (row) => (
        <button class="link" aria-label={`Delete: ${row.principal} ${row.operation} ${row.resource_type} ${named(row)}`} onClick={() => (plan.value = { title: "Delete entry", action: "delete-acls", arguments: { entries: [bare(row)] } })}>
          Delete…
        </button>
      ),
    },
  ];
  return (
    <>
      <Find value={q} set={setQ} label="Principals, resources, operations that contain">
        <button class="btn go" {...needs(operations, "ALTER", "the cluster")} onClick={() => setCreating("1")}>
          Give rights…
        </button>
      </Find>
      <Shown loaded={loaded}>
        {(data) => (
          <Card label="Entries of access">
            {!data.secured ? (
              <Empty title="This cluster keeps no entries of access.">Whoever reaches its brokers may do everything. The brokers' authorizer.class.name turns that off.</Empty>
            ) : data.items.length === 0 ? (
              <Empty title={q ? "No entry contains that." : "There are no entries yet."}>{q ? "" : "Without any, super users alone may do something, unless allow.everyone.if.no.acl.found is on."}</Empty>
            ) : (
              <>
                <Rows rows={data.items} columns={columns} id={(row) => Object.values(row).join(" ")} label="Entries of access" />
                {data.cursor !== null && <p class="body dim">The first {count(data.items.length)} of {plural(data.total, "entry", "entries")}; search for others.</p>}
              </>
            )}
          </Card>
        )}
      </Shown>
      {creating === "1" && <Give close={() => setCreating("")} done={loaded.again} />}
      {plan.value && <PlanDialog request={plan.value} close={() => (plan.value = null)} done={loaded.again} />}
    </>
  );
}

const bare = (row: Entry): Entry => ({ resource_type: row.resource_type, resource: row.resource, pattern: row.pattern, principal: row.principal, host: row.host, operation: row.operation, permission: row.permission });

// Entries that belong together, by what they are for; or one of one's own.
function Give({ close, done }: { close: () => void; done: () => void }) {
  const kind = useSignal("consume");
  const principal = useSignal("User:");
  const host = useSignal("*");
  const topic = useSignal("");
  const prefixed = useSignal("LITERAL");
  const group = useSignal("");
  const application = useSignal("");
  const type = useSignal("TOPIC");
  const operation = useSignal("READ");
  const permission = useSignal("ALLOW");
  const one = (resource_type: string, resource: string, op: string, pattern = prefixed.value, how = "ALLOW"): Entry => ({ resource_type, resource, pattern, principal: principal.value.trim(), host: host.value.trim() || "*", operation: op, permission: how });
  const entries: Entry[] =
    kind.value === "consume"
      ? [...(topic.value ? ["READ", "DESCRIBE"].map((op) => one("TOPIC", topic.value, op)) : []), ...(group.value ? [one("GROUP", group.value, "READ", "LITERAL")] : [])]
      : kind.value === "produce"
        ? [...(topic.value ? ["WRITE", "DESCRIBE"].map((op) => one("TOPIC", topic.value, op)) : []), ...(application.value ? ["WRITE", "DESCRIBE"].map((op) => one("TRANSACTIONAL_ID", application.value, op, "LITERAL")) : [])]
        : kind.value === "streams"
          ? application.value
            ? [...["READ", "WRITE", "CREATE", "DESCRIBE", "DELETE"].map((op) => one("TOPIC", application.value, op, "PREFIXED")), one("GROUP", application.value, "READ", "PREFIXED"), ...["WRITE", "DESCRIBE"].map((op) => one("TRANSACTIONAL_ID", application.value, op, "PREFIXED")), ...(topic.value ? ["READ", "WRITE", "DESCRIBE"].map((op) => one("TOPIC", topic.value, op)) : [])]
            : []
          : type.value === "CLUSTER"
            ? [one("CLUSTER", CLUSTER_NAME, operation.value, "LITERAL", permission.value)]
            : topic.value
              ? [one(type.value, topic.value, operation.value, prefixed.value, permission.value)]
              : [];
  const ready = /^\w+:.+/.test(principal.value.trim()) && entries.length > 0;
  return (
    <PlanDialog request={{ title: "Give rights", ...(ready ? { action: "create-acls", arguments: { entries } } : {}) }} close={close} done={done}>
      <div class="form gap">
        <Choice label="To" value={kind.value} set={(value) => (kind.value = value)} options={[["consume", "read topics in a group"], ["produce", "write to topics"], ["streams", "run a Streams application"], ["one", "one entry"]]} />
        <Field label="Principal" value={principal.value} set={(value) => (principal.value = value)} first />
        <Field label="From address" value={host.value} set={(value) => (host.value = value)} />
        {kind.value === "one" && (
          <>
            <Choice label="On a" value={type.value} set={(value) => { type.value = value; operation.value = OPERATIONS[value]?.[0] ?? "ALL"; }} options={TYPES} />
            <Choice label="Operation" value={operation.value} set={(value) => (operation.value = value)} options={OPERATIONS[type.value] ?? []} />
            <Choice label="It is" value={permission.value} set={(value) => (permission.value = value)} options={[["ALLOW", "allowed"], ["DENY", "denied"]]} />
          </>
        )}
        {!(kind.value === "one" && type.value === "CLUSTER") && (
          <>
            <Field label={kind.value === "one" ? "Name" : kind.value === "streams" ? "Topic that it reads and writes" : "Topic"} value={topic.value} set={(value) => (topic.value = value)} />
            <Choice label="The name is" value={prefixed.value} set={(value) => (prefixed.value = value)} options={[["LITERAL", "the whole name, or *"], ["PREFIXED", "how names begin"]]} />
          </>
        )}
        {kind.value === "consume" && <Field label="Group" value={group.value} set={(value) => (group.value = value)} />}
        {kind.value === "produce" && <Field label="Transactional id, if any" value={application.value} set={(value) => (application.value = value)} />}
        {kind.value === "streams" && <Field label="Application id" value={application.value} set={(value) => (application.value = value)} />}
      </div>
    </PlanDialog>
  );
}

interface Decision {
  allowed: boolean;
  rule: string;
  entry: Entry | null;
  warnings: string[];
}

function Check() {
  const { cluster } = useHere();
  const [principal, setPrincipal] = useParam("principal", "User:");
  const [type, setType] = useParam("type", "TOPIC");
  const [name, setName] = useParam("name");
  const [operation, setOperation] = useParam("operation", "READ");
  const [host, setHost] = useParam("host", "*");
  const found = useSignal<Decision | null>(null);
  const error = useSignal("");
  const ask = () => {
    found.value = null;
    error.value = "";
    const query = new URLSearchParams({ principal, type, operation, host, name: type === "CLUSTER" ? CLUSTER_NAME : name });
    call<Decision>(`/api/c/${encodeURIComponent(cluster)}/access/check?${query}`)
      .then((answer) => (found.value = answer))
      .catch((cause: unknown) => (error.value = (cause as Error).message));
  };
  return (
    <Card label="May somebody do something">
      <form
        class="body stack-all"
        onSubmit={(event) => {
          event.preventDefault();
          ask();
        }}
      >
        <div class="form">
          <Field label="May" value={principal} set={setPrincipal} />
          <Choice label="do" value={operation} set={setOperation} options={OPERATIONS[type] ?? []} />
          <Choice label="on a" value={type} set={(value) => { setType(value); setOperation(OPERATIONS[value]?.[0] ?? "ALL"); }} options={TYPES} />
          {type !== "CLUSTER" && <Field label="called" value={name} set={setName} />}
          <Field label="from address" value={host} set={setHost} />
        </div>
        <div>
          <button class="btn go" disabled={!/^\w+:.+/.test(principal) || (type !== "CLUSTER" && !name)}>
            Ask
          </button>
        </div>
        <div role="status">
          {error.value && <div class="callout bad">{error.value}</div>}
          {found.value && (
            <div class={`callout ${found.value.allowed ? "good" : "bad"}`}>
              <b>{found.value.allowed ? "Yes." : "No."}</b> {found.value.rule}
              {found.value.entry && (
                <p class="mono gap-s">
                  {found.value.entry.principal} {found.value.entry.permission === "ALLOW" ? "may" : "may not"} {found.value.entry.operation} {found.value.entry.resource_type} {named(found.value.entry)} from {found.value.entry.host}
                </p>
              )}
              {found.value.warnings.map((each) => (
                <p key={each} class="warn-text gap-s">
                  {each}
                </p>
              ))}
            </div>
          )}
        </div>
      </form>
    </Card>
  );
}
