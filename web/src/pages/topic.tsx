import { useSignal } from "@preact/signals";
import { Link, useLocation } from "wouter-preact";
import { bytesText, count, duration, plural, rate } from "../format";
import { Card, type Column, Empty, Pill, Rail, Rows, Shown, Tabs, needs } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded } from "../state";
import type { PartitionRow, Topic } from "../types";
import { Config } from "./config";
import { stateKind } from "./groups";
import CostPage from "./cost";
import { KeyOverTime } from "./key";
import LineagePage from "./lineage";
import { Messages, Produce } from "./messages";
import { caught } from "../caught";

export default function TopicPage({ name, tab }: { name: string; tab: string }) {
  const { cluster } = useHere();
  const [, go] = useLocation();
  const loaded = useLoaded<Topic>(`/api/c/${encodeURIComponent(cluster)}/topics/${encodeURIComponent(name)}`);
  const dialog = useSignal<PlanRequest | "produce" | "partitions" | null>(null);
  const base = `/c/${cluster}/topics/${encodeURIComponent(name)}`;
  return (
    <Shown loaded={loaded}>
      {(data) => (
        <>
          <div class="head">
            <div>
              <h1>{name}</h1>
              <p class="sub">
                <span>
                  {plural(data.partitions, "partition")} × {data.replicas}
                </span>
                <span>{plural(data.records, "record")}{data.bytes === null ? "" : `, ${bytesText(data.bytes)}`}</span>
                <span>{rate(data.rate)} records/s</span>
                {data.without_leader > 0 && <Pill kind="bad">{data.without_leader} without leader</Pill>}
                {data.out_of_sync > 0 && <Pill kind="warn">{data.out_of_sync} not in sync</Pill>}
              </p>
            </div>
            <div class="acts">
              <button class="btn" {...needs(data.operations, "WRITE", `topic ${name}`)} onClick={() => (dialog.value = "produce")}>
                Produce…
              </button>
              <button class="btn m-hide" {...needs(data.operations, "ALTER", `topic ${name}`)} onClick={() => (dialog.value = "partitions")}>
                Add partitions…
              </button>
              <button class="btn m-hide" {...needs(data.operations, "DELETE", `topic ${name}`)} onClick={() => (dialog.value = { title: "Empty topic", action: "empty-topic", arguments: { topic: name } })}>
                Empty…
              </button>
              <button class="btn danger" {...needs(data.operations, "DELETE", `topic ${name}`)} onClick={() => (dialog.value = { title: "Delete topic", action: "delete-topic", arguments: { topic: name } })}>
                Delete…
              </button>
            </div>
          </div>
          <Tabs
            label="Topic"
            tabs={[
              { name: "Messages", href: `${base}/messages`, here: tab === "messages" },
              { name: "A key", href: `${base}/key`, here: tab === "key" },
              { name: "Partitions", href: `${base}/partitions`, here: tab === "partitions", n: data.partitions },
              { name: "Groups", href: `${base}/groups`, here: tab === "groups", n: data.group_rows.length },
              { name: "Lineage", href: `${base}/lineage`, here: tab === "lineage" },
              { name: "Cost", href: `${base}/cost`, here: tab === "cost" },
              { name: "Configuration", href: `${base}/config`, here: tab === "config" },
            ]}
          />
          {tab === "messages" && <Messages key={name} topic={name} partitions={data.partitions} />}
          {tab === "key" && <KeyOverTime topic={name} />}
          {tab === "partitions" && <Partitions rows={data.partition_rows} />}
          {tab === "groups" && <Groups topic={data} cluster={cluster} />}
          {tab === "lineage" && <LineagePage topic={name} />}
          {tab === "cost" && <CostPage topic={name} />}
          {tab === "config" && <Config title="Settings of the topic" path={`/api/c/${encodeURIComponent(cluster)}/topics/${encodeURIComponent(name)}/config`} type="topics" name={name} />}
          {dialog.value === "produce" && <Produce topic={name} close={() => (dialog.value = null)} />}
          {dialog.value === "partitions" && <AddPartitions topic={data} close={() => (dialog.value = null)} />}
          {dialog.value !== null && typeof dialog.value === "object" && (
            <PlanDialog
              request={dialog.value}
              close={() => (dialog.value = null)}
              done={() => {
                if ((dialog.value as PlanRequest).action === "delete-topic") go(`/c/${cluster}/topics`);
              }}
            />
          )}
        </>
      )}
    </Shown>
  );
}

function Partitions({ rows }: { rows: PartitionRow[] }) {
  const scale = Math.max(1, ...rows.map((each) => each.end));
  const columns: Column<PartitionRow>[] = [
    { name: "Partition", num: true, cell: (row) => row.partition },
    { name: `Offsets 0 to ${count(scale)}`, width: "w-rail", hide: true, cell: (row) => <Rail start={0} end={scale} from={0} looked={[Math.max(0, row.start), Math.max(0, row.end)]} /> },
    { name: "First", num: true, hide: true, cell: (row) => <span class="mono">{row.start < 0 ? "–" : count(row.start)}</span> },
    { name: "End", num: true, cell: (row) => <span class="mono">{row.end < 0 ? "–" : count(row.end)}</span> },
    { name: "Records", num: true, cell: (row) => (row.end < 0 || row.start < 0 ? "–" : count(row.end - row.start)) },
    { name: "Leader", num: true, cell: (row) => (row.leader < 0 ? <Pill kind="bad">none</Pill> : row.leader) },
    { name: "Copies on", cell: (row) => row.replicas.map((each) => <span class={row.in_sync.includes(each) ? "copy" : "copy late"} title={row.in_sync.includes(each) ? "in sync" : "not in sync"}>{each}</span>) },
  ];
  return (
    <Card label="Partitions">
      <Rows rows={rows} columns={columns} id={(row) => String(row.partition)} label="Partitions" />
    </Card>
  );
}

function Groups({ topic, cluster }: { topic: Topic; cluster: string }) {
  return (
    <Card label="Groups">
      {topic.group_rows.length === 0 ? (
        <Empty title="No group has committed anything for this topic." />
      ) : (
        <Rows
          rows={topic.group_rows}
          id={(row) => row.name}
          label="Groups"
          columns={[
            { name: "Group", cell: (row) => <Link href={`/c/${cluster}/groups/${encodeURIComponent(row.name)}`}>{row.name}</Link> },
            { name: "State", cell: (row) => <Pill kind={stateKind(row.state)}>{row.state}</Pill> },
            { name: "Lag of the group", num: true, cell: (row) => count(row.lag) },
            { name: "In time", num: true, cell: (row) => duration(row.lag_ms) },
            { name: "Caught up in", hide: true, cell: caught },
          ]}
        />
      )}
    </Card>
  );
}

function AddPartitions({ topic, close }: { topic: Topic; close: () => void }) {
  const wanted = useSignal(String(topic.partitions + 1));
  return (
    <PlanDialog request={{ title: "Add partitions", ...(Number(wanted.value) > topic.partitions ? { action: "add-partitions", arguments: { topic: topic.name, partitions: Number(wanted.value) } } : {}) }} close={close}>
      <div class="form gap">
        <label class="stack">
          Partitions altogether
          <input class="field" type="number" min={topic.partitions + 1} autofocus value={wanted.value} onInput={(event) => (wanted.value = event.currentTarget.value)} />
        </label>
      </div>
    </PlanDialog>
  );
}
