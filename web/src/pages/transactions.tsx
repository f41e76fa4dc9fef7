// Transactional ids and what they have open; transactions that nobody will end, and how they are ended.
import { useSignal } from "@preact/signals";
import { call } from "../api";
import { count, duration, moment, plural } from "../format";
import { Find, Head, Partial } from "../page";
import { Card, type Column, Empty, Pill, Rows, Shown, needs } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded, useParam } from "../state";
import type { Page } from "../types";

interface Transaction {
  id: string;
  state: string;
  coordinator: number;
  producer_id: number;
  started_ms: number | null;
  timeout_ms: number | null;
  partitions: string[];
}

interface Hanging {
  topic: string;
  partition: number;
  producer_id: number;
  epoch: number;
  start_offset: number;
  last_ms: number;
}

const kindOf = (state: string): string => (state === "Ongoing" ? "warn" : state.startsWith("Complete") ? "good" : "");

export default function TransactionsPage() {
  const { cluster } = useHere();
  const [q, setQ] = useParam("q");
  const [sort, setSort] = useParam("sort", "-started_ms");
  const plan = useSignal<PlanRequest | null>(null);
  const base = `/api/c/${encodeURIComponent(cluster)}`;
  const loaded = useLoaded<Page<Transaction> & { now_ms: number; operations: string[] }>(`${base}/transactions?q=${encodeURIComponent(q)}&sort=${sort}&limit=500`);
  const now = loaded.data?.now_ms ?? 0;
  const columns: Column<Transaction>[] = [
    { name: "Transactional id", key: "id", cell: (row) => <span class="clip">{row.id}</span> },
    { name: "State", key: "state", cell: (row) => <Pill kind={kindOf(row.state)}>{row.state}</Pill> },
    { name: "Open for", key: "started_ms", num: true, cell: (row) => (row.started_ms === null ? "–" : duration(now - row.started_ms)) },
    { name: "At most", num: true, hide: true, cell: (row) => (row.timeout_ms === null ? "–" : duration(row.timeout_ms)) },
    { name: "Partitions", hide: true, cell: (row) => <span class="dim">{row.partitions.length > 3 ? plural(row.partitions.length, "partition") : row.partitions.join(", ") || "–"}</span> },
    { name: "Producer", num: true, hide: true, cell: (row) => row.producer_id },
    { name: "Coordinator", num: true, hide: true, cell: (row) => row.coordinator },
    {
      name: " ",
      num: true,
      cell: (row) =>
        row.state === "Ongoing" ? (
          <button class="link" aria-label={`Abort the transaction of ${row.id}`} onClick={() => (plan.value = { title: "Abort transaction", action: "terminate-transaction", arguments: { transactional_id: row.id } })}>
            Abort…
          </button>
        ) : null,
    },
  ];
  return (
    <>
      <Head title="Transactions" sub={<span>{loaded.data ? plural(loaded.data.total, "transactional id") : " "}</span>} />
      <Find value={q} set={setQ} label="Ids that contain" />
      <Shown loaded={loaded}>
        {(data) => (
          <>
            <Partial said={data.partial} />
            <Card label="Transactions">
              {data.items.length === 0 ? (
                <Empty title={q ? `No id contains “${q}”.` : "There are no transactional ids."}>{q ? "" : "A producer with a transactional.id makes one; so do Kafka Streams and exactly-once connectors."}</Empty>
              ) : (
                <Rows rows={data.items} columns={columns} id={(row) => row.id} sort={sort} onSort={setSort} label="Transactions" />
              )}
            </Card>
          </>
        )}
      </Shown>
      <HangingCard plan={(request) => (plan.value = request)} operations={loaded.data?.operations} />
      {plan.value && <PlanDialog request={plan.value} close={() => (plan.value = null)} done={loaded.again} />}
    </>
  );
}

function HangingCard({ plan, operations }: { plan: (request: PlanRequest) => void; operations: string[] | undefined }) {
  const { cluster } = useHere();
  const topic = useSignal("");
  const found = useSignal<Hanging[] | null>(null);
  const error = useSignal("");
  const working = useSignal(false);
  const look = () => {
    working.value = true;
    error.value = "";
    call<{ items: Hanging[] }>(`/api/c/${encodeURIComponent(cluster)}/hanging?topic=${encodeURIComponent(topic.value.trim())}`)
      .then((answer) => (found.value = answer.items))
      .catch((cause: unknown) => (error.value = (cause as Error).message))
      .finally(() => (working.value = false));
  };
  return (
    <Card class="gap-top" title="Hanging ones" right={<span class="m-hide">open for 15 minutes without a record, and known to no coordinator: readers of committed records wait at them</span>}>
      <form
        class="bar1 body"
        onSubmit={(event) => {
          event.preventDefault();
          look();
        }}
      >
        <label class="field grow">
          <span class="lb">topic</span>
          <input class="bare" placeholder="empty: all topics" value={topic.value} onInput={(event) => (topic.value = event.currentTarget.value)} />
        </label>
        <button class="btn" disabled={working.value}>
          {working.value ? "Looking…" : "Look for them"}
        </button>
      </form>
      {error.value && (
        <div class="callout bad" role="alert">
          {error.value}
        </div>
      )}
      {found.value &&
        (found.value.length === 0 ? (
          <Empty title="There are none." />
        ) : (
          <Rows
            rows={found.value}
            id={(row) => `${row.topic}-${row.partition}-${row.start_offset}`}
            label="Hanging transactions"
            columns={[
              { name: "Partition", cell: (row) => `${row.topic}-${row.partition}` },
              { name: "From offset", num: true, cell: (row) => <span class="mono">{count(row.start_offset)}</span> },
              { name: "Producer", num: true, hide: true, cell: (row) => row.producer_id },
              { name: "Last record", hide: true, cell: (row) => moment(row.last_ms) },
              {
                name: " ",
                num: true,
                cell: (row) => (
                  <button class="link" {...needs(operations, "ALTER", "the cluster")} onClick={() => plan({ title: "Abort transaction", action: "abort-transaction", arguments: { topic: row.topic, partition: row.partition, start_offset: row.start_offset } })}>
                    Abort…
                  </button>
                ),
              },
            ]}
          />
        ))}
    </Card>
  );
}
