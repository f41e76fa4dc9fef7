// Connect's clusters of workers: connectors, what has failed first, and why in a sentence.
import { Link } from "wouter-preact";
import { plural } from "../format";
import { Find, Head } from "../page";
import { Card, type Column, Empty, Pill, Rows, Shown, needs } from "../parts";
import { useHere, useLoaded, useParam } from "../state";
import { ConfigureConnector } from "./connector";

export interface Connector {
  name: string;
  type: string;
  class: string;
  state: string;
  worst: string;
  tasks: number;
  failed: number;
  still: number;
  cause: string | null;
}

interface Workers {
  name: string;
  url: string;
  version?: string;
  error: string;
  connectors: Connector[];
}

export const stateOf = (state: string): string => (state === "RUNNING" ? "good" : state === "FAILED" ? "bad" : state === "PAUSED" || state === "STOPPED" ? "" : "warn");

export default function ConnectPage() {
  const { cluster } = useHere();
  const [q, setQ] = useParam("q");
  const [creating, setCreating] = useParam("new");
  const loaded = useLoaded<{ items: Workers[]; operations: string[] }>(`/api/c/${encodeURIComponent(cluster)}/connect`);
  const all = loaded.data?.items.flatMap((each) => each.connectors) ?? [];
  const failed = all.filter((each) => each.worst === "FAILED").length;
  const still = all.filter((each) => each.still > 0).length;
  const columns = (workers: string): Column<Connector>[] => [
    {
      name: "Connector",
      cell: (row) => <Link href={`/c/${cluster}/connect/${encodeURIComponent(workers)}/${encodeURIComponent(row.name)}`}>{row.name}</Link>,
    },
    {
      name: "State",
      cell: (row) =>
        row.still > 0 && row.failed === 0 ? (
          <Pill kind="warn">stands still</Pill>
        ) : (
          <Pill kind={stateOf(row.worst)}>{row.worst === row.state || row.failed === 0 ? row.worst : `${row.failed} of ${plural(row.tasks, "task")} failed`}</Pill>
        ),
    },
    { name: "Kind", hide: true, cell: (row) => row.type },
    { name: "Class", hide: true, cell: (row) => <span class="dim" title={row.class}>{row.class.split(".").pop()}</span> },
    { name: "Tasks", num: true, cell: (row) => row.tasks },
    { name: "Why", hide: true, cell: (row) => <span class="clip" title={row.cause ?? ""}>{row.cause ?? ""}</span> },
  ];
  return (
    <>
      <Head
        title="Connect"
        sub={
          <>
            <span>{loaded.data ? plural(all.length, "connector") : " "}</span>
            {failed > 0 && <Pill kind="bad">{failed} failed</Pill>}
            {still > 0 && <Pill kind="warn">{plural(still, "stands", "stand")} still</Pill>}
          </>
        }
      >
        {loaded.data && loaded.data.items.length > 0 && (
          <button class="btn go" {...needs(loaded.data.operations, "ALTER", "the cluster")} onClick={() => setCreating(loaded.data?.items[0]?.name ?? "")}>
            Create connector…
          </button>
        )}
      </Head>
      <Find value={q} set={setQ} label="Names that contain" />
      <Shown loaded={loaded}>
        {(data) =>
          data.items.length === 0 ? (
            <Card label="Connect">
              <Empty title="No Connect workers are named.">
                Start the console with <code>--override ottla.console.connect.urls=NAME=URL</code>, several with commas between.
              </Empty>
            </Card>
          ) : (
            data.items.map((workers) => {
              const rows = workers.connectors.filter((each) => each.name.toLowerCase().includes(q.toLowerCase()));
              return (
                <Card key={workers.name} class="gap" title={<>{workers.name} <span class="dim">{workers.url}{workers.version ? `, ${workers.version}` : ""}</span></>}>
                  {workers.error ? (
                    <div class="callout bad" role="status">
                      <b>It does not answer.</b> {workers.error}
                    </div>
                  ) : rows.length === 0 ? (
                    <Empty title={q ? `No connector's name contains “${q}”.` : "There are no connectors yet."}>{q ? "" : "“Create connector…” asks what a plugin needs, and has it checked."}</Empty>
                  ) : (
                    <Rows rows={rows} columns={columns(workers.name)} id={(row) => row.name} label={`Connectors of ${workers.name}`} />
                  )}
                </Card>
              );
            })
          )
        }
      </Shown>
      {creating && <ConfigureConnector workers={creating} all={loaded.data?.items.map((each) => each.name) ?? [creating]} close={() => setCreating("")} done={loaded.again} />}
    </>
  );
}
