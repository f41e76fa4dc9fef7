// One application of Streams: its topology, tasks, hosts, and what its stores hold.
import { useSignal } from "@preact/signals";
import { Link } from "wouter-preact";
import { call } from "../api";
import { count, plural } from "../format";
import { Head } from "../page";
import { Card, Empty, Pill, Rows, Shown, needs } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded } from "../state";
import { Topology } from "../topology";
import { type Application, stateOf } from "./streams";

interface Task {
  task: string;
  host: number;
  running: boolean;
  lag: number;
  processed: number;
  restored: number;
  commits: number;
  process_seconds: number;
}

interface Part {
  name: string;
  kind: string;
  active: boolean;
  restarts: number;
  last_error: string | null;
  rows: number;
  rows_per_second: number;
  lag: number;
  late: number;
  dropped: number;
  skipped: number;
  works?: Task[];
}

interface Whole extends Application {
  operations: string[];
  kind: "service" | "application";
  because: string | null;
  notices: string[];
  parts: Part[];
  hosts: { host: number; ready: boolean; restarts: number; cpu_seconds: number; memory_bytes: number; last_error: string | null }[];
  topology: string;
  stores: { name: string; kind: string; key: string; value: string }[];
}

export default function ApplicationPage({ service, name }: { service: string; name: string }) {
  const { cluster } = useHere();
  const plan = useSignal<PlanRequest | null>(null);
  const base = `/api/c/${encodeURIComponent(cluster)}/streams/${encodeURIComponent(service)}/${encodeURIComponent(name)}`;
  const loaded = useLoaded<Whole>(base);
  const to = (title: string, state: string) => (plan.value = { title, action: "streams-state", arguments: { service, name, to: state } });
  return (
    <>
      <Shown loaded={loaded}>
        {(data) => {
          const may = needs(data.operations, "ALTER", "the cluster");
          const tasks = data.parts.flatMap((part) => part.works ?? []);
          const other = data.execution === "continuous" ? "micro-batch" : "continuous";
          return (
            <>
              <Head
                title={name}
                sub={
                  <>
                    <Pill kind={stateOf(data)}>{data.paused ? "PAUSED" : data.state}</Pill>
                    <span title={data.because ?? ""}>{data.execution}</span>
                    <span>{data.guarantee.replaceAll("_", " ")}</span>
                    <span>{count(Math.round(data.rows_per_second))} records/s</span>
                    <span>{data.lag === 0 ? "nothing waits" : `${count(data.lag)} behind`}</span>
                    <span>
                      at <Link href={`/c/${cluster}/streams`}>{service}</Link>
                    </span>
                  </>
                }
              >
                {data.kind === "service" ? (
                  <>
                    {data.paused ? (
                      <button class="btn go" {...may} onClick={() => to("Resume", "running")}>
                        Resume…
                      </button>
                    ) : (
                      <button class="btn" {...may} onClick={() => to("Pause", "paused")}>
                        Pause…
                      </button>
                    )}
                    <button class="btn danger" {...may} onClick={() => to("End", "ended")}>
                      End…
                    </button>
                  </>
                ) : (
                  <button class="btn" {...may} onClick={() => (plan.value = { title: `Go on ${other}`, action: "promote-streams", arguments: { service, to: other } })}>
                    Go on {other === "continuous" ? "continuous" : "in micro-batches"}…
                  </button>
                )}
              </Head>
              {data.error && (
                <div class="callout bad gap">
                  <b>It has failed.</b> {data.error}
                </div>
              )}
              {data.notices.map((each) => (
                <div key={each} class="callout gap">
                  {each}
                </div>
              ))}
              <div class="grid">
                <div class="c8 col">
                  <Card title="Parts" class="gap">
                    <Rows
                      rows={data.parts}
                      id={(row) => row.name}
                      label="Parts"
                      columns={[
                        { name: "Part", cell: (row) => row.name },
                        { name: "Kind", hide: true, cell: (row) => row.kind },
                        { name: "State", cell: (row) => <Pill kind={row.active ? "good" : "warn"}>{row.active ? "runs" : "waits"}</Pill> },
                        { name: "Records", num: true, hide: true, cell: (row) => count(row.rows) },
                        { name: "Records/s", num: true, cell: (row) => count(Math.round(row.rows_per_second)) },
                        { name: "Lag", num: true, cell: (row) => count(row.lag) },
                        { name: "Left out", num: true, hide: true, cell: (row) => count(row.late + row.dropped + row.skipped) },
                        { name: "Restarts", num: true, hide: true, cell: (row) => <span title={row.last_error ?? ""}>{row.restarts}</span> },
                      ]}
                    />
                  </Card>
                  {tasks.length > 0 && (
                    <Card title="Tasks" class="gap" right={plural(tasks.length, "task")}>
                      <Rows
                        rows={tasks}
                        id={(row) => row.task}
                        label="Tasks"
                        columns={[
                          { name: "Task", cell: (row) => <span class="mono">{row.task}</span> },
                          { name: "Host", num: true, cell: (row) => row.host },
                          { name: "State", cell: (row) => <Pill kind={row.running ? "good" : "warn"}>{row.running ? "runs" : "is restored"}</Pill> },
                          { name: "Lag", num: true, cell: (row) => count(row.lag) },
                          { name: "Processed", num: true, cell: (row) => count(row.processed) },
                          { name: "Restored", num: true, hide: true, cell: (row) => count(row.restored) },
                          { name: "Commits", num: true, hide: true, cell: (row) => count(row.commits) },
                          { name: "Took", num: true, hide: true, cell: (row) => `${row.process_seconds.toFixed(2)} s` },
                        ]}
                      />
                    </Card>
                  )}
                  {data.stores.map((each) => (
                    <Store key={each.name} base={base} store={each} may={may} />
                  ))}
                </div>
                <div class="c4 col">
                  <Card title="Topology">
                    <Topology text={data.topology} />
                  </Card>
                </div>
              </div>
            </>
          );
        }}
      </Shown>
      {plan.value && <PlanDialog request={plan.value} close={() => (plan.value = null)} done={loaded.again} />}
    </>
  );
}

const text = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

// A store is looked into when somebody asks: its changelog is read for that.
function Store({ base, store, may }: { base: string; store: { name: string; kind: string; key: string; value: string }; may: object }) {
  const key = useSignal("");
  const found = useSignal<{ entries: { key: unknown; value: unknown }[]; lag: number | null; limit: number } | null>(null);
  const error = useSignal("");
  const look = () => {
    error.value = "";
    call<{ entries: { key: unknown; value: unknown }[]; lag: number | null; limit: number }>(`${base}/stores/${encodeURIComponent(store.name)}${key.value ? `?key=${encodeURIComponent(key.value)}` : ""}`)
      .then((answer) => (found.value = answer))
      .catch((cause: unknown) => {
        found.value = null;
        error.value = (cause as Error).message;
      });
  };
  return (
    <Card
      class="gap"
      title={
        <>
          {store.name} <span class="dim">{store.kind.replaceAll("_", " ")}, {store.key} → {store.value}</span>
        </>
      }
    >
      <form
        class="bar1 body"
        onSubmit={(event) => {
          event.preventDefault();
          look();
        }}
      >
        <label class="field grow">
          <span class="sr">Key in {store.name}</span>
          <input class="bare mono" placeholder="a key, or nothing for all" value={key.value} onInput={(event) => (key.value = event.currentTarget.value)} />
        </label>
        <button class="btn" {...may}>
          Look
        </button>
      </form>
      {error.value && (
        <div class="callout bad" role="alert">
          {error.value}
        </div>
      )}
      {found.value &&
        (found.value.entries.length === 0 ? (
          <Empty title="There is no such key." />
        ) : (
          <>
            <Rows
              rows={found.value.entries}
              id={(row) => text(row.key)}
              label={`Entries of ${store.name}`}
              columns={[
                { name: "Key", cell: (row) => <span class="mono clip">{text(row.key)}</span> },
                { name: "Value", cell: (row) => <span class="mono clip">{text(row.value)}</span> },
              ]}
            />
            {found.value.entries.length >= found.value.limit && <p class="body dim">The first {found.value.limit} are shown.</p>}
          </>
        ))}
    </Card>
  );
}
