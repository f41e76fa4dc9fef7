// Where partitions lie: what is being moved and how far it is, and a plan that spreads topics anew, said before it is run.
import { useSignal } from "@preact/signals";
import { bytesText, plural } from "../format";
import { Field, Head, Partial } from "../page";
import { Bar, Card, Empty, Rows, Shown, needs } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded, useParam } from "../state";
import type { BrokerRow, Page, TopicRow } from "../types";

interface Move {
  topic: string;
  partition: number;
  replicas: number[];
  adding: number[];
  removing: number[];
  bytes: number;
  copied: number;
}

interface Reassignments {
  items: Move[];
  throttles: { broker: number; name: string; value: string }[];
  partial: string[];
  operations: string[];
}

export default function ReassignPage() {
  const { cluster } = useHere();
  const [planning, setPlanning] = useParam("new");
  const plan = useSignal<PlanRequest | null>(null);
  const base = `/api/c/${encodeURIComponent(cluster)}`;
  const loaded = useLoaded<Reassignments>(`${base}/reassignments`);
  const brokers = useLoaded<{ items: BrokerRow[] }>(`${base}/brokers`);
  return (
    <>
      <Head title="Reassignment" sub={<span>{loaded.data ? (loaded.data.items.length ? `${plural(loaded.data.items.length, "partition")} under way` : "nothing is being moved") : " "}</span>}>
        <button class="btn go" {...needs(loaded.data?.operations, "ALTER", "the cluster")} onClick={() => setPlanning("1")}>
          Plan a move…
        </button>
      </Head>
      <Shown loaded={loaded}>
        {(data) => (
          <>
            <Partial said={data.partial} />
            {data.throttles.length > 0 && (
              <div class="callout gap">
                <b>Copies are held back.</b> {data.throttles.slice(0, 4).map((each) => `Broker ${each.broker}: ${each.name} ${bytesText(Number(each.value))}/s`).join("; ")}{" "}
                <button class="btn" onClick={() => (plan.value = { title: "Remove throttle", action: "remove-throttle", arguments: { topics: data.items.length ? [...new Set(data.items.map((each) => each.topic))] : null } })}>
                  Remove the throttle…
                </button>
              </div>
            )}
            <Card
              title="Under way"
              right={
                data.items.length > 0 && (
                  <button class="btn danger" onClick={() => (plan.value = { title: "Cancel all", action: "cancel-reassignment", arguments: {} })}>
                    Cancel all…
                  </button>
                )
              }
            >
              {data.items.length === 0 ? (
                <Empty title="Nothing is being moved.">“Plan a move…” says first what would move, how much that is and how long it takes.</Empty>
              ) : (
                <Rows
                  rows={data.items}
                  id={(row) => `${row.topic}-${row.partition}`}
                  label="Under way"
                  columns={[
                    { name: "Partition", cell: (row) => `${row.topic}-${row.partition}` },
                    { name: "From", hide: true, cell: (row) => row.replicas.filter((each) => !row.adding.includes(each)).join(", ") },
                    { name: "New copies on", cell: (row) => row.adding.join(", ") || "–" },
                    {
                      name: "Copied",
                      width: "w-rail",
                      cell: (row) => (
                        <span class="with-bar">
                          <Bar share={row.bytes ? Math.min(1, row.copied / row.bytes) : 1} />
                          <span class="dim">
                            {bytesText(row.copied)} of {bytesText(row.bytes)}
                          </span>
                        </span>
                      ),
                    },
                    {
                      name: " ",
                      num: true,
                      hide: true,
                      cell: (row) => (
                        <button class="link" aria-label={`Cancel the move of ${row.topic}-${row.partition}`} onClick={() => (plan.value = { title: "Cancel move", action: "cancel-reassignment", arguments: { partitions: [`${row.topic}-${row.partition}`] } })}>
                          Cancel…
                        </button>
                      ),
                    },
                  ]}
                />
              )}
            </Card>
          </>
        )}
      </Shown>
      {brokers.data && (
        <Card class="gap-top" title="What brokers hold">
          <Rows
            rows={brokers.data.items}
            id={(row) => String(row.id)}
            label="What brokers hold"
            columns={[
              { name: "Broker", cell: (row) => `${row.id} ${row.host}:${row.port}` },
              { name: "Rack", hide: true, cell: (row) => row.rack ?? "–" },
              { name: "Copies", num: true, cell: (row) => row.partitions },
              { name: "Leads", num: true, cell: (row) => row.leads },
              { name: "Bytes", num: true, cell: (row) => bytesText(row.bytes) },
            ]}
          />
        </Card>
      )}
      {planning === "1" && <PlanMove brokers={brokers.data?.items ?? []} close={() => setPlanning("")} done={loaded.again} />}
      {plan.value && <PlanDialog request={plan.value} close={() => (plan.value = null)} done={loaded.again} />}
    </>
  );
}

function PlanMove({ brokers, close, done }: { brokers: BrokerRow[]; close: () => void; done: () => void }) {
  const { cluster } = useHere();
  const q = useSignal("");
  const topics = useSignal<string[]>([]);
  const picked = useSignal<number[] | null>(null); // all of them until somebody chooses
  const chosen = picked.value ?? brokers.map((each) => each.id);
  const throttle = useSignal("50");
  const found = useLoaded<Page<TopicRow>>(`/api/c/${encodeURIComponent(cluster)}/topics?q=${encodeURIComponent(q.value)}&internal=true&limit=20`, false);
  const toggled = <T,>(list: T[], item: T): T[] => (list.includes(item) ? list.filter((each) => each !== item) : [...list, item]);
  const rate = Number(throttle.value);
  const request = { topics: topics.value, brokers: [...chosen].sort((a, b) => a - b), throttle: rate > 0 ? Math.round(rate * 1e6) : null };
  const ready = topics.value.length > 0 && chosen.length > 0;
  return (
    <PlanDialog request={{ title: "Move partitions", ...(ready ? { action: "reassign", arguments: request } : {}) }} close={close} done={done}>
      <div class="form gap">
        <Field label="Topics that contain" value={q.value} set={(value) => (q.value = value)} first />
        <Field label="Throttle, MB/s (empty: none)" type="number" value={throttle.value} set={(value) => (throttle.value = value)} />
      </div>
      <fieldset class="choices gap">
        <legend>Topics</legend>
        {[...new Set([...topics.value, ...(found.data?.items ?? []).map((each) => each.name)])].map((each) => (
          <label key={each} class="check">
            <input type="checkbox" checked={topics.value.includes(each)} onChange={() => (topics.value = toggled(topics.value, each))} /> {each}
          </label>
        ))}
      </fieldset>
      <fieldset class="choices gap">
        <legend>Onto brokers</legend>
        {brokers.map((each) => (
          <label key={each.id} class="check">
            <input type="checkbox" checked={chosen.includes(each.id)} onChange={() => (picked.value = toggled(chosen, each.id))} /> {each.id} {each.rack ? <span class="dim">{each.rack}</span> : null}
          </label>
        ))}
      </fieldset>
    </PlanDialog>
  );
}
