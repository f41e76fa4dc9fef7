import { Link } from "wouter-preact";
import { count, duration, plural, rate } from "../format";
import { Card, type Column, Empty, Icon, Pill, Rows, Shown, Spark } from "../parts";
import { useHere, useLoaded, useParam } from "../state";
import type { GroupRow, Page } from "../types";
import { caught } from "../caught";

export const stateKind = (state: string): string => (/^stable$/i.test(state) ? "good" : /^(empty|dead)$/i.test(state) ? "" : "warn");

export default function GroupsPage() {
  const { cluster } = useHere();
  const [q, setQ] = useParam("q");
  const [sort, setSort] = useParam("sort", "-lag");
  const loaded = useLoaded<Page<GroupRow>>(`/api/c/${encodeURIComponent(cluster)}/groups?q=${encodeURIComponent(q)}&sort=${sort}&limit=500`);
  const columns: Column<GroupRow>[] = [
    { name: "Group", key: "name", cell: (row) => <Link href={`/c/${cluster}/groups/${encodeURIComponent(row.name)}`}>{row.name}</Link> },
    { name: "State", key: "state", cell: (row) => <Pill kind={stateKind(row.state)}>{row.state}</Pill> },
    { name: "Kind", key: "type", hide: true, cell: (row) => row.type },
    { name: "Reads", hide: true, cell: (row) => <span class="dim">{row.topics.length > 2 ? plural(row.topics.length, "topic") : row.topics.join(", ") || "–"}</span> },
    { name: "Lag", key: "lag", num: true, cell: (row) => count(row.lag) },
    { name: "In time", key: "lag_ms", num: true, cell: (row) => duration(row.lag_ms) },
    { name: "4 h", hide: true, cell: (row) => <Spark points={row.recent} bad={(row.lag_ms ?? 0) > 300_000} /> },
    { name: "In/s", key: "in_per_s", num: true, hide: true, cell: (row) => rate(row.in_per_s) },
    { name: "Consumed/s", key: "consumed_per_s", num: true, hide: true, cell: (row) => rate(row.consumed_per_s) },
    { name: "Caught up in", key: "caught_up_in_s", hide: true, cell: caught },
  ];
  return (
    <>
      <div class="head">
        <div>
          <h1>Groups</h1>
          <p class="sub">
            <span>{loaded.data ? plural(loaded.data.total, "group") : " "}</span>
          </p>
        </div>
      </div>
      <div class="bar1">
        <label class="field grow">
          <Icon name="find" />
          <span class="sr">Names that contain</span>
          <input class="bare" type="search" placeholder="names that contain…" value={q} data-focus="filter" onInput={(event) => setQ(event.currentTarget.value)} />
        </label>
      </div>
      <Shown loaded={loaded}>
        {(data) => (
          <Card label="Groups">
            {data.items.length === 0 ? (
              <Empty title={q ? `No group's name contains “${q}”.` : "There are no groups yet."}>{q ? "" : "A consumer with a group.id makes one; so does `ottla consume TOPIC --group NAME`."}</Empty>
            ) : (
              <Rows rows={data.items} columns={columns} id={(row) => row.name} sort={sort} onSort={setSort} label="Groups" />
            )}
          </Card>
        )}
      </Shown>
    </>
  );
}
