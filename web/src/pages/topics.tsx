import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { call } from "../api";
import { bytesText, count, plural, rate } from "../format";
import { Card, type Column, Empty, Icon, Pill, Rows, Shown } from "../parts";
import { PlanDialog } from "../plan";
import { useHere, useLoaded, useParam } from "../state";
import type { Page, TopicRow } from "../types";

const LIMIT = 500;

export default function TopicsPage() {
  const { cluster } = useHere();
  const [q, setQ] = useParam("q");
  const [sort, setSort] = useParam("sort", "name");
  const [internal, setInternal] = useParam("internal");
  const [creating, setCreating] = useParam("new");
  const more = useSignal<TopicRow[]>([]);
  const base = `/api/c/${encodeURIComponent(cluster)}/topics`;
  const query = `q=${encodeURIComponent(q)}&sort=${sort}&internal=${internal === "1"}&limit=${LIMIT}`;
  const loaded = useLoaded<Page<TopicRow>>(`${base}?${query}`);
  useEffect(() => {
    more.value = [];
  }, [query, cluster]);
  const columns: Column<TopicRow>[] = [
    {
      name: "Topic",
      key: "name",
      cell: (row) => (
        <>
          <Link href={`/c/${cluster}/topics/${encodeURIComponent(row.name)}/messages`}>{row.name}</Link>{" "}
          {row.without_leader > 0 ? <Pill kind="bad">{row.without_leader} without leader</Pill> : row.out_of_sync > 0 ? <Pill kind="warn">{row.out_of_sync} not in sync</Pill> : null}
        </>
      ),
    },
    { name: "Partitions", key: "partitions", num: true, hide: true, cell: (row) => <>{row.partitions} <span class="dim">× {row.replicas}</span></> },
    { name: "Records", key: "records", num: true, cell: (row) => count(row.records) },
    { name: "Size", key: "bytes", num: true, hide: true, cell: (row) => bytesText(row.bytes) },
    { name: "In/s", key: "rate", num: true, cell: (row) => rate(row.rate) },
    { name: "Groups", key: "groups", num: true, hide: true, cell: (row) => (row.groups ? row.groups : "–") },
    { name: "Lag", key: "lag", num: true, hide: true, cell: (row) => (row.groups ? count(row.lag) : "–") },
  ];
  return (
    <>
      <div class="head">
        <div>
          <h1>Topics</h1>
          <p class="sub">
            <span>{loaded.data ? plural(loaded.data.total, "topic") : " "}</span>
          </p>
        </div>
        <div class="acts">
          <button class="btn go" onClick={() => setCreating("1")}>
            Create topic…
          </button>
        </div>
      </div>
      <div class="bar1">
        <label class="field grow">
          <Icon name="find" />
          <span class="sr">Names that contain</span>
          <input class="bare" type="search" placeholder="names that contain…" value={q} data-focus="filter" onInput={(event) => setQ(event.currentTarget.value)} />
        </label>
        <label class="field">
          <input type="checkbox" checked={internal === "1"} onChange={(event) => setInternal(event.currentTarget.checked ? "1" : "")} />
          internal ones too
        </label>
      </div>
      <Shown loaded={loaded}>
        {(data) =>
          data.items.length === 0 ? (
            <Card label="Topics">
              <Empty title={q ? `No topic's name contains “${q}”.` : "There are no topics yet."}>
                {q ? (
                  <button class="btn" onClick={() => setQ("")}>
                    Show all
                  </button>
                ) : (
                  <button class="btn go" onClick={() => setCreating("1")}>
                    Create the first one…
                  </button>
                )}
              </Empty>
            </Card>
          ) : (
            <Card label="Topics">
              <Rows rows={[...data.items, ...more.value]} columns={columns} id={(row) => row.name} sort={sort} onSort={setSort} label="Topics" />
              {data.cursor !== null && data.items.length + more.value.length < data.total && (
                <p class="body">
                  <button
                    class="btn"
                    onClick={() =>
                      void call<Page<TopicRow>>(`${base}?${query}&cursor=${data.items.length + more.value.length}`).then((next) => {
                        more.value = [...more.value, ...next.items];
                      })
                    }
                  >
                    Show {Math.min(LIMIT, data.total - data.items.length - more.value.length)} more
                  </button>
                </p>
              )}
            </Card>
          )
        }
      </Shown>
      {creating === "1" && <CreateTopic close={() => setCreating("")} />}
    </>
  );
}

function CreateTopic({ close }: { close: () => void }) {
  const { cluster } = useHere();
  const [, go] = useLocation();
  const name = useSignal("");
  const partitions = useSignal("3");
  const copies = useSignal("");
  const policy = useSignal("");
  const retention = useSignal("");
  const configs: Record<string, string> = {};
  if (policy.value) configs["cleanup.policy"] = policy.value;
  if (retention.value) configs["retention.ms"] = retention.value;
  const request = {
    topic: name.value.trim(),
    partitions: partitions.value ? Number(partitions.value) : null,
    replication_factor: copies.value ? Number(copies.value) : null,
    configs,
  };
  return (
    <PlanDialog
      request={{ title: "Create topic", ...(request.topic ? { action: "create-topic", arguments: request } : {}) }}
      close={close}
      done={() => setTimeout(() => go(`/c/${cluster}/topics/${encodeURIComponent(request.topic)}/messages`), 50)}
    >
      <div class="form gap">
        <label class="stack">
          Name
          <input class="field" autocomplete="off" autofocus value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
        </label>
        <label class="stack">
          Partitions
          <input class="field" type="number" min="1" placeholder="the brokers' default" value={partitions.value} onInput={(event) => (partitions.value = event.currentTarget.value)} />
        </label>
        <label class="stack">
          Copies
          <input class="field" type="number" min="1" placeholder="the brokers' default" value={copies.value} onInput={(event) => (copies.value = event.currentTarget.value)} />
        </label>
        <label class="stack">
          Old records
          <select class="field" value={policy.value} onChange={(event) => (policy.value = event.currentTarget.value)}>
            <option value="">as the brokers say</option>
            <option value="delete">are deleted</option>
            <option value="compact">leave when their key has a newer one</option>
            <option value="compact,delete">both</option>
          </select>
        </label>
        <label class="stack">
          Kept for, ms
          <input class="field" type="number" placeholder="retention.ms of the brokers" value={retention.value} onInput={(event) => (retention.value = event.currentTarget.value)} />
        </label>
      </div>
    </PlanDialog>
  );
}
