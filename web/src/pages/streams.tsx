// Streams: the applications of services and those that stand for themselves, how far they are behind, and what they are at.
import { useSignal } from "@preact/signals";
import { Link } from "wouter-preact";
import { count, plural } from "../format";
import { Find, Head } from "../page";
import { Card, type Column, Empty, Pill, Rows, Shown, needs } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded, useParam } from "../state";

export interface Application {
  name: string;
  application_id: string;
  state: string;
  paused: boolean;
  execution: string;
  guarantee: string;
  rows: number;
  rows_per_second: number;
  lag: number;
  error: string | null;
}

interface Service {
  name: string;
  url: string;
  kind: "service" | "application";
  error: string;
  hosts: number;
  available: string[];
  applications: Application[];
}

export const stateOf = (row: { state: string; paused: boolean }): string => (row.paused ? "" : row.state === "RUNNING" ? "good" : row.state.endsWith("ERROR") ? "bad" : row.state === "REBALANCING" ? "warn" : "");

export default function StreamsPage() {
  const { cluster } = useHere();
  const [q, setQ] = useParam("q");
  const plan = useSignal<PlanRequest | null>(null);
  const loaded = useLoaded<{ items: Service[]; operations: string[] }>(`/api/c/${encodeURIComponent(cluster)}/streams`);
  const all = loaded.data?.items.flatMap((each) => each.applications) ?? [];
  const failed = all.filter((each) => each.state === "ERROR").length;
  const columns = (service: string): Column<Application>[] => [
    { name: "Application", cell: (row) => <Link href={`/c/${cluster}/streams/${encodeURIComponent(service)}/${encodeURIComponent(row.name)}`}>{row.name}</Link> },
    { name: "State", cell: (row) => <Pill kind={stateOf(row)}>{row.paused ? "PAUSED" : row.state}</Pill> },
    { name: "Mode", hide: true, cell: (row) => row.execution },
    { name: "Guarantee", hide: true, cell: (row) => <span class="dim">{row.guarantee.replaceAll("_", " ")}</span> },
    { name: "Records/s", num: true, cell: (row) => count(Math.round(row.rows_per_second)) },
    { name: "Lag", num: true, cell: (row) => count(row.lag) },
    { name: "Why it failed", hide: true, cell: (row) => <span class="clip" title={row.error ?? ""}>{row.error ?? ""}</span> },
  ];
  return (
    <>
      <Head
        title="Streams"
        sub={
          <>
            <span>{loaded.data ? plural(all.length, "application") : " "}</span>
            {failed > 0 && <Pill kind="bad">{failed} failed</Pill>}
          </>
        }
      />
      <Find value={q} set={setQ} label="Names that contain" />
      <Shown loaded={loaded}>
        {(data) =>
          data.items.length === 0 ? (
            <Card label="Streams">
              <Empty title="No Streams service is named.">
                Start the console with <code>--override ottla.console.streams.urls=NAME=URL</code>: the address of <code>ottla streams serve</code>, or of an application’s <code>--http</code>; several with commas between.
              </Empty>
            </Card>
          ) : (
            data.items.map((service) => {
              const rows = service.applications.filter((each) => each.name.toLowerCase().includes(q.toLowerCase()));
              return (
                <Card
                  key={service.name}
                  class="gap"
                  title={
                    <>
                      {service.name} <span class="dim">{service.url}</span>
                    </>
                  }
                  right={service.hosts > 0 && plural(service.hosts, "host")}
                >
                  {service.error ? (
                    <div class="callout bad" role="status">
                      <b>It does not answer.</b> {service.error}
                    </div>
                  ) : rows.length === 0 ? (
                    <Empty title={q ? `No application’s name contains “${q}”.` : "Nothing runs there."} />
                  ) : (
                    <Rows rows={rows} columns={columns(service.name)} id={(row) => row.name} label={`Applications of ${service.name}`} />
                  )}
                  {service.available.length > 0 && (
                    <div class="body chips">
                      <span class="dim">lie there, and do not run:</span>
                      {service.available.map((name) => (
                        <button key={name} class="btn" {...needs(data.operations, "ALTER", "the cluster")} onClick={() => (plan.value = { title: `Start ${name}`, action: "streams-state", arguments: { service: service.name, name, to: "started" } })}>
                          {name}…
                        </button>
                      ))}
                    </div>
                  )}
                </Card>
              );
            })
          )
        }
      </Shown>
      {plan.value && <PlanDialog request={plan.value} close={() => (plan.value = null)} done={loaded.again} />}
    </>
  );
}
