// Who keeps the metadata and how far each of them is, and the cluster's features.
import { useSignal } from "@preact/signals";
import { count, duration } from "../format";
import { Head, Partial } from "../page";
import { Card, type Column, Empty, Pill, Rows, Shown } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded } from "../state";

interface Member {
  id: number;
  directory_id: string;
  is_leader: boolean;
  end: number;
  lag: number | null;
  fetched_ms: number;
  caught_up_ms: number;
  listeners: string[];
}

interface Quorum {
  leader: number;
  epoch: number;
  high_watermark: number;
  voters: Member[];
  observers: Member[];
  features: { name: string; level: number; least: number; most: number }[];
  partial: string[];
  now_ms: number;
  operations: string[];
}

const NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA";

export default function QuorumPage() {
  const { cluster } = useHere();
  const plan = useSignal<PlanRequest | null>(null);
  const loaded = useLoaded<Quorum>(`/api/c/${encodeURIComponent(cluster)}/quorum`);
  const columns = (data: Quorum, votes: boolean): Column<Member>[] => [
    { name: "Node", cell: (row) => <>{row.id} {row.is_leader && <Pill kind="good">leads</Pill>}</> },
    { name: "Listens at", hide: true, cell: (row) => <span class="mono clip">{row.listeners.join(", ") || "–"}</span> },
    { name: "Has offset", num: true, hide: true, cell: (row) => <span class="mono">{row.end < 0 ? "–" : count(row.end)}</span> },
    { name: "Lag", num: true, cell: (row) => count(row.lag) },
    { name: "Had all", num: true, cell: (row) => (row.is_leader ? "–" : row.caught_up_ms > 0 ? `${duration(Math.max(0, data.now_ms - row.caught_up_ms))} ago` : "–") },
    {
      name: " ",
      num: true,
      hide: true,
      cell: (row) =>
        votes && data.voters.length > 1 && row.directory_id !== NO_DIRECTORY ? (
          <button class="link" aria-label={`Remove voter ${row.id}`} onClick={() => (plan.value = { title: "Remove voter", action: "remove-voter", arguments: { node: row.id, directory_id: row.directory_id } })}>
            Remove…
          </button>
        ) : null,
    },
  ];
  return (
    <>
      <Shown loaded={loaded}>
        {(data) => (
          <>
            <Head
              title="Quorum"
              sub={
                <>
                  <span>
                    Node {data.leader} leads, epoch {data.epoch}
                  </span>
                  <span>committed up to offset {count(data.high_watermark)}</span>
                </>
              }
            />
            <Partial said={data.partial} />
            <Card title="Voters" right={data.voters.length < 3 ? <span class="m-hide">none may fail; three would let one fail</span> : <span class="m-hide">{Math.floor((data.voters.length - 1) / 2)} may fail</span>}>
              <Rows rows={data.voters} columns={columns(data, true)} id={(row) => String(row.id)} label="Voters" />
            </Card>
            <Card class="gap-top" title="Observers">{data.observers.length === 0 ? <Empty title="Nobody follows without a vote." /> : <Rows rows={data.observers} columns={columns(data, false)} id={(row) => String(row.id)} label="Observers" />}</Card>
            <Card class="gap-top" title="Features">
              <Rows
                rows={data.features}
                id={(row) => row.name}
                label="Features"
                columns={[
                  { name: "Feature", cell: (row) => row.name },
                  { name: "Level", num: true, cell: (row) => row.level },
                  { name: "Supported", num: true, cell: (row) => (row.least === row.most ? String(row.least) : `${row.least} to ${row.most}`) },
                  { name: " ", hide: true, cell: (row) => (row.level < row.most ? <span class="dim">ottla features upgrade --feature {row.name}={row.most}</span> : null) },
                ]}
              />
            </Card>
          </>
        )}
      </Shown>
      {plan.value && <PlanDialog request={plan.value} close={() => (plan.value = null)} done={loaded.again} />}
    </>
  );
}
