import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Link } from "wouter-preact";
import { Chart, Legend, spans, type Series } from "../chart";
import { count, duration, plural, rate } from "../format";
import { Card, type Column, Dialog, Empty, Pill, Rail, Rows, Segments, Shown, Spark } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded, useParam } from "../state";
import type { GroupRow, Sampled } from "../types";
import { stateKind } from "./groups";
import { caught } from "../caught";

interface Row {
  topic: string;
  partition: number;
  start: number;
  end: number;
  committed: number;
  lag: number | null;
  lag_ms: number | null;
  in_per_s: number | null;
  consumed_per_s: number | null;
  caught_up_in_s: number | null;
  recent: number[];
}

interface Group extends Sampled, GroupRow {
  partition_rows: Row[];
  members: { id: string; client_id: string; host: string; instance_id: string | null; partitions: string[] }[] | null;
  members_error: string;
  assignor: string;
  epoch: number | null;
  why: string | null;
}

export default function GroupPage({ name }: { name: string }) {
  const { cluster } = useHere();
  const [span, setSpan] = useParam("span", "1 h");
  const dialog = useSignal<PlanRequest | "reset" | "forget" | null>(null);
  const loaded = useLoaded<Group>(`/api/c/${encodeURIComponent(cluster)}/groups/${encodeURIComponent(name)}`);
  const lag: Series[] = [{ name: `lag/${name}`, label: "Lag", colour: "--s1" }];
  // What comes in is known by topic: of a group that reads several no series says it.
  const [topic, ...others] = loaded.data?.topics ?? [];
  const comes: Series[] = topic !== undefined && others.length === 0 ? [{ name: `in/${topic}`, label: "In", colour: "--s1" }] : [];
  const rates: Series[] = [...comes, { name: `consumed/${name}`, label: "Consumed", colour: "--s2" }];
  return (
    <Shown loaded={loaded}>
      {(data) => (
        <>
          <div class="head">
            <div>
              <h1>{data.name}</h1>
              <p class="sub">
                <span>
                  <Pill kind={stateKind(data.state)}>{data.state}</Pill>
                </span>
                <span>
                  {data.type} protocol{data.assignor ? `, ${data.assignor}` : ""}
                </span>
                <span>{data.members === null ? "members not known" : plural(data.members.length, "member")}</span>
                {data.topics.length > 0 && (
                  <span>
                    reads{" "}
                    {data.topics.slice(0, 3).map((each, index) => (
                      <>
                        {index ? ", " : ""}
                        <Link href={`/c/${cluster}/topics/${encodeURIComponent(each)}/messages`}>{each}</Link>
                      </>
                    ))}
                    {data.topics.length > 3 ? ` and ${data.topics.length - 3} more` : ""}
                  </span>
                )}
              </p>
            </div>
            <div class="acts">
              <Segments label="Time span" value={span} options={spans} set={setSpan} />
              <button class="btn" disabled={data.topics.length === 0} onClick={() => (dialog.value = "reset")}>
                Reset offsets…
              </button>
              <button class="btn m-hide" disabled={data.topics.length === 0} onClick={() => (dialog.value = "forget")}>
                Forget a topic…
              </button>
              <button class="btn danger" onClick={() => (dialog.value = { title: "Delete group", action: "delete-group", arguments: { group: name } })}>
                Delete…
              </button>
            </div>
          </div>
          {data.why && (
            <div class="callout bad gap">
              <b>Why it is behind.</b> {data.why}
            </div>
          )}
          <div class="grid">
            <Card class="c8" title={<>Lag <span class="dim">records</span></>}>
              <Chart series={lag} span={span} height={172} label={`Lag of ${name}`} />
            </Card>
            <Card class="c4" title={<>Rates <span class="dim">records/s</span></>} right={<Legend series={rates} />}>
              <Chart series={rates} span={span} height={172} label={`Records a second that come in for ${name} and that it consumes`} />
            </Card>
            <Partitions rows={data.partition_rows} />
            {data.type === "share" && <Deliveries name={name} />}
            <Members group={data} />
          </div>
          {dialog.value === "reset" && <Reset group={data} close={() => (dialog.value = null)} />}
          {dialog.value === "forget" && <Forget group={data} close={() => (dialog.value = null)} />}
          {dialog.value !== null && typeof dialog.value === "object" && <PlanDialog request={dialog.value} close={() => (dialog.value = null)} />}
        </>
      )}
    </Shown>
  );
}

function Partitions({ rows }: { rows: Row[] }) {
  const scale = Math.max(1, ...rows.map((each) => each.end - Math.max(each.start, 0)));
  const columns: Column<Row>[] = [
    { name: "Partition", cell: (row) => `${row.topic}-${row.partition}` },
    { name: `Last ${count(scale)} offsets`, width: "w-rail", hide: true, cell: (row) => <Rail start={row.start} end={row.end} at={row.committed} from={row.end - scale} /> },
    { name: "Committed", num: true, hide: true, cell: (row) => <span class="mono">{count(row.committed)}</span> },
    { name: "End", num: true, hide: true, cell: (row) => <span class="mono">{count(row.end)}</span> },
    { name: "Lag", num: true, cell: (row) => <b>{count(row.lag)}</b> },
    { name: "1 h", hide: true, cell: (row) => <Spark points={row.recent} bad={(row.lag_ms ?? 0) > 300_000} /> },
    { name: "In time", num: true, cell: (row) => duration(row.lag_ms) },
    { name: "In/s", num: true, hide: true, cell: (row) => rate(row.in_per_s) },
    { name: "Consumed/s", num: true, hide: true, cell: (row) => rate(row.consumed_per_s) },
    { name: "Caught up in", hide: true, cell: caught },
  ];
  return (
    <Card class="c12" title="Partitions" right={<span class="m-hide">line: committed offset; hatched: lag</span>}>
      {rows.length === 0 ? (
        <Empty title="Nothing is committed." />
      ) : (
        <Rows rows={[...rows].sort((a, b) => (b.lag ?? 0) - (a.lag ?? 0))} columns={columns} id={(row) => `${row.topic}-${row.partition}`} label="Partitions" />
      )}
    </Card>
  );
}

interface Delivered {
  topic: string;
  partition: number;
  start: number;
  tried: Record<string, number>;
  acknowledged: number;
  archived: number;
}

// What brokers keep of a share group behind where it begins: records that come again, and such as were given up.
function Deliveries({ name }: { name: string }) {
  const { cluster } = useHere();
  const loaded = useLoaded<{ items: Delivered[] }>(`/api/c/${encodeURIComponent(cluster)}/groups/${encodeURIComponent(name)}/deliveries`);
  const columns: Column<Delivered>[] = [
    { name: "Partition", cell: (row) => `${row.topic}-${row.partition}` },
    { name: "From", num: true, hide: true, cell: (row) => <span class="mono">{count(row.start)}</span> },
    {
      name: "To come again",
      cell: (row) => {
        const tried = Object.entries(row.tried);
        return tried.length === 0 ? "–" : tried.map(([times, records]) => `${count(records)} after ${plural(Number(times), "delivery", "deliveries")}`).join(", ");
      },
    },
    { name: "Acknowledged", num: true, hide: true, cell: (row) => (row.acknowledged ? count(row.acknowledged) : "–") },
    { name: "Given up", num: true, cell: (row) => (row.archived ? <b>{count(row.archived)}</b> : "–") },
  ];
  return (
    <Card class="c12" title="Deliveries" right={<span class="m-hide">what is kept behind where the group begins</span>}>
      <Shown loaded={loaded}>
        {(data) =>
          data.items.length === 0 ? <Empty title="Nothing is kept: all that was delivered is done with." /> : <Rows rows={data.items} columns={columns} id={(row) => `${row.topic}-${row.partition}`} label="Deliveries" />
        }
      </Shown>
    </Card>
  );
}

function Members({ group }: { group: Group }) {
  return (
    <Card class="c12" title="Members">
      {group.members === null ? (
        <Empty title="The members are not known.">{group.members_error}</Empty>
      ) : group.members.length === 0 ? (
        <Empty title="Nobody is in the group." />
      ) : (
        <table>
          <thead>
            <tr>
              <th>Client</th>
              <th class="m-hide">Host</th>
              <th class="num">Partitions</th>
              <th class="m-hide">Which</th>
            </tr>
          </thead>
          <tbody>
            {group.members.map((each) => (
              <tr key={each.id}>
                <td title={each.id}>{each.instance_id ?? each.client_id}</td>
                <td class="m-hide">{each.host}</td>
                <td class="num">{each.partitions.length}</td>
                <td class="m-hide clip dim">{each.partitions.slice(0, 12).join(", ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Reset({ group, close }: { group: Group; close: () => void }) {
  const topic = useSignal(group.topics[0] ?? "");
  const to = useSignal("earliest");
  const value = useSignal("");
  const stopped = /^(empty|dead)$/i.test(group.state);
  const needs = to.value === "offset" || to.value === "shift" || to.value === "time";
  const amount = to.value === "time" ? new Date(value.value).getTime() : Number(value.value);
  const ready = !needs || (value.value !== "" && Number.isFinite(amount));
  const form = (
    <div class="form gap">
      <label class="stack">
        Topic
        <select class="field" value={topic.value} onChange={(event) => (topic.value = event.currentTarget.value)}>
          {group.topics.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <label class="stack">
        To
        <select class="field" value={to.value} onChange={(event) => (to.value = event.currentTarget.value)}>
          <option value="earliest">the first records</option>
          <option value="latest">the end</option>
          <option value="time">a time</option>
          <option value="offset">an offset</option>
          <option value="shift">so many further, or back</option>
        </select>
      </label>
      {needs && (
        <label class="stack">
          {to.value === "time" ? "Time" : to.value === "offset" ? "Offset" : "Records (negative: back)"}
          <input class="field" type={to.value === "time" ? "datetime-local" : "number"} step={to.value === "time" ? "1" : undefined} value={value.value} onInput={(event) => (value.value = event.currentTarget.value)} />
        </label>
      )}
    </div>
  );
  if (!stopped || !ready) {
    return (
      <NotYet title="Reset offsets" close={close}>
        {form}
        {!stopped && (
          <div class="callout bad">
            <b>The group is {group.state}.</b> Stop its members first:{" "}
            {group.members?.slice(0, 5).map((each) => each.client_id).join(", ") || "they are not known"}. A member would commit over what is set here.
          </div>
        )}
      </NotYet>
    );
  }
  const request = { group: group.name, topic: topic.value, to: to.value, ...(needs ? { value: amount } : {}) };
  return (
    <PlanDialog request={{ title: "Reset offsets", action: "reset-offsets", arguments: request }} close={close}>
      {form}
    </PlanDialog>
  );
}

// A group that has stopped to read a topic still shows its lag there, until it forgets how far it was.
function Forget({ group, close }: { group: Group; close: () => void }) {
  const topic = useSignal(group.topics[0] ?? "");
  return (
    <PlanDialog request={{ title: "Forget a topic", action: "forget-topic", arguments: { group: group.name, topic: topic.value } }} close={close}>
      <label class="stack gap">
        Topic
        <select class="field" autofocus value={topic.value} onChange={(event) => (topic.value = event.currentTarget.value)}>
          {group.topics.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
    </PlanDialog>
  );
}

function NotYet({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  return (
    <Dialog
      title={title}
      close={close}
      wide
      footer={
        <>
          <button class="btn" onClick={close}>
            Cancel
          </button>
          <button class="btn go" disabled>
            {title}
          </button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}
