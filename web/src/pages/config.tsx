// Settings of a topic or a broker, with where each value comes from; those that may change open as a plan.
import { useSignal } from "@preact/signals";
import { Card, Icon, Rows, Shown, type Column, Empty, Pill } from "../parts";
import { PlanDialog } from "../plan";
import { useLoaded, useParam } from "../state";
import type { ConfigRow } from "../types";

const SOURCES: Record<string, string> = {
  DYNAMIC_TOPIC_CONFIG: "set here",
  DYNAMIC_BROKER_CONFIG: "set here",
  DYNAMIC_DEFAULT_BROKER_CONFIG: "set for all brokers",
  STATIC_BROKER_CONFIG: "the broker's file",
  DEFAULT_CONFIG: "default",
};

export function Config({ title, path, type, name }: { title: string; path: string; type: string; name: string }) {
  const loaded = useLoaded<{ items: ConfigRow[] }>(path, false);
  const [q, setQ] = useParam("setting");
  const [all, setAll] = useParam("all");
  const edited = useSignal<ConfigRow | null>(null);
  const columns: Column<ConfigRow>[] = [
    {
      name: "Setting",
      cell: (row) =>
        row.read_only ? (
          <span class="mono">{row.name}</span>
        ) : (
          <button class="link mono" onClick={() => (edited.value = row)}>
            {row.name}
          </button>
        ),
    },
    { name: "Value", cell: (row) => <span class="mono clip">{row.sensitive ? "[hidden]" : row.value === null || row.value === "" ? "–" : row.value}</span> },
    { name: "From", hide: true, cell: (row) => (row.is_set_here ? <Pill kind="good">set here</Pill> : <span class="dim">{SOURCES[row.source] ?? row.source}</span>) },
  ];
  return (
    <Shown loaded={loaded}>
      {(data) => {
        const rows = data.items.filter((row) => (all === "1" || q || !row.is_default) && row.name.includes(q));
        return (
          <Card class="gap-top" title={title} right={`${data.items.filter((row) => row.is_set_here).length} set here`}>
            <div class="bar1 body">
              <label class="field grow">
                <Icon name="find" />
                <span class="sr">Settings that contain</span>
                <input class="bare" type="search" placeholder="settings that contain…" value={q} onInput={(event) => setQ(event.currentTarget.value)} />
              </label>
              <label class="field">
                <input type="checkbox" checked={all === "1"} onChange={(event) => setAll(event.currentTarget.checked ? "1" : "")} />
                defaults too
              </label>
            </div>
            {rows.length === 0 ? <Empty title="Everything is as it is by default.">Tick “defaults too”, or search for a setting, to see and change one.</Empty> : <Rows rows={rows} columns={columns} id={(row) => row.name} label={title} />}
            {edited.value && <Edit row={edited.value} type={type} name={name} close={() => (edited.value = null)} done={loaded.again} />}
          </Card>
        );
      }}
    </Shown>
  );
}

function Edit({ row, type, name, close, done }: { row: ConfigRow; type: string; name: string; close: () => void; done: () => void }) {
  const value = useSignal(row.sensitive ? "" : (row.value ?? ""));
  const drop = useSignal(false);
  const request = { type, name, set: drop.value ? {} : { [row.name]: value.value }, delete: drop.value ? [row.name] : [] };
  return (
    <PlanDialog request={{ title: `Change ${row.name}`, action: "alter-config", arguments: request }} close={close} done={done}>
      <div class="form gap">
        <label class="stack">
          {row.name}
          <input class="field mono" autofocus disabled={drop.value} value={value.value} onInput={(event) => (value.value = event.currentTarget.value)} />
        </label>
        {row.is_set_here && (
          <label class="field">
            <input type="checkbox" checked={drop.value} onChange={(event) => (drop.value = event.currentTarget.checked)} />
            drop it: back to what it falls back to
          </label>
        )}
      </div>
      {row.synonyms.length > 0 && (
        <p class="dim gap">
          {row.synonyms.map(([key, text, source]) => `${key} = ${text ?? "–"} (${SOURCES[source] ?? source})`).join("; ")}
        </p>
      )}
    </PlanDialog>
  );
}
