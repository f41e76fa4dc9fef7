// What users, clients and addresses are held to.
import { useSignal } from "@preact/signals";
import { bytesText, count } from "../format";
import { Choice, Field } from "../page";
import { Card, Empty, Rows, Shown, needs } from "../parts";
import { PlanDialog } from "../plan";
import { useHere, useLoaded, useParam } from "../state";

interface Quota {
  entity: Record<string, string | null>;
  values: Record<string, number>;
}

const UNITS: Record<string, (value: number) => string> = {
  producer_byte_rate: (value) => `${bytesText(value)}/s written`,
  consumer_byte_rate: (value) => `${bytesText(value)}/s read`,
  request_percentage: (value) => `${count(value)} % of a thread`,
  controller_mutation_rate: (value) => `${count(value)} changes/s`,
  connection_creation_rate: (value) => `${count(value)} connections/s`,
};
const who = (entity: Quota["entity"]): string => Object.entries(entity).map(([kind, name]) => `${kind} ${name ?? "(all others)"}`).join(", ");

export function Quotas() {
  const { cluster } = useHere();
  const [creating, setCreating] = useParam("new");
  const edited = useSignal<Quota | null>(null);
  const loaded = useLoaded<{ items: Quota[]; operations: string[] }>(`/api/c/${encodeURIComponent(cluster)}/quotas`, false);
  const close = () => {
    edited.value = null;
    setCreating("");
  };
  return (
    <>
      <Shown loaded={loaded}>
        {(data) => (
          <Card
            title="Quotas"
            right={
              <button class="btn go" {...needs(data.operations, "ALTER_CONFIGS", "the cluster")} onClick={() => setCreating("1")}>
                Set a quota…
              </button>
            }
          >
            {data.items.length === 0 ? (
              <Empty title="Nobody is held to anything.">Clients take of the brokers what they can.</Empty>
            ) : (
              <Rows
                rows={data.items}
                id={(row) => who(row.entity)}
                label="Quotas"
                columns={[
                  {
                    name: "Whom",
                    cell: (row) => (
                      <button class="link" onClick={() => (edited.value = row)}>
                        {who(row.entity)}
                      </button>
                    ),
                  },
                  { name: "Held to", cell: (row) => Object.entries(row.values).map(([name, value]) => (UNITS[name] ?? ((each: number) => `${name} ${each}`))(value)).join("; ") },
                ]}
              />
            )}
          </Card>
        )}
      </Shown>
      {(creating === "1" || edited.value) && <Edit quota={edited.value} close={close} done={loaded.again} />}
    </>
  );
}

function Edit({ quota, close, done }: { quota: Quota | null; close: () => void; done: () => void }) {
  const kind = useSignal(quota ? Object.keys(quota.entity).join("+") : "user");
  const first = useSignal(quota ? (Object.values(quota.entity)[0] ?? "") : "");
  const second = useSignal(quota ? (Object.values(quota.entity)[1] ?? "") : "");
  const values = useSignal<Record<string, string>>(Object.fromEntries(Object.entries(quota?.values ?? {}).map(([name, value]) => [name, String(value)])));
  const kinds = kind.value.split("+");
  const names = kind.value === "ip" ? ["connection_creation_rate"] : ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"];
  const entity = Object.fromEntries(kinds.map((each, index) => [each, (index ? second.value : first.value).trim() || null]));
  const set: Record<string, number> = {};
  const drop: string[] = [];
  for (const name of names) {
    const text = values.value[name] ?? "";
    if (text && Number(text) > 0) set[name] = Number(text);
    else if (!text && quota && name in quota.values) drop.push(name);
  }
  const ready = Object.keys(set).length + drop.length > 0;
  return (
    <PlanDialog request={{ title: "Set quota", ...(ready ? { action: "alter-quotas", arguments: { entity, set, delete: drop } } : {}) }} close={close} done={done}>
      <div class="form gap">
        {quota ? (
          <p>{who(quota.entity)}</p>
        ) : (
          <>
            <Choice label="Of" value={kind.value} set={(value) => (kind.value = value)} options={[["user", "a user"], ["client-id", "a client id"], ["user+client-id", "a client id of a user"], ["ip", "an address"]]} />
            <Field label={kinds[0] === "ip" ? "Address" : kinds[0] === "user" ? "User" : "Client id"} placeholder="empty: all others" value={first.value} set={(value) => (first.value = value)} first />
            {kinds.length > 1 && <Field label="Client id" placeholder="empty: all others" value={second.value} set={(value) => (second.value = value)} />}
          </>
        )}
        {names.map((name) => (
          <Field key={name} label={name} type="number" value={values.value[name] ?? ""} set={(value) => (values.value = { ...values.value, [name]: value })} />
        ))}
      </div>
    </PlanDialog>
  );
}
