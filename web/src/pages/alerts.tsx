// Alerts: conditions over what is sampled, which of them ring, and who is told.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ago } from "../ago";
import { call } from "../api";
import { clock, count, plural } from "../format";
import { Choice, Field, Head, Partial } from "../page";
import { Card, type Column, Empty, Pill, Rows, Shown, needs } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded, useParam } from "../state";
import type { Sampled } from "../types";

interface Alert {
  name: string;
  condition: string;
  severity: "bad" | "warn";
  targets: string[];
  state: "ok" | "waiting" | "ringing";
  since_ms: number | null;
  silenced_until_ms: number | null;
  told: boolean;
  values: Record<string, unknown>;
  errors: Record<string, string>;
}

interface Answer extends Sampled {
  operations: string[];
  kept: boolean;
  trouble: string;
  targets: { name: string; kind: string }[];
  figures: { name: string; text: string }[];
  broken: { name: string; why: string }[];
  items: Alert[];
}

const PRESETS: [string, string][] = [
  ["", "own"],
  ["lag('GROUP') > 100000 FOR 5 MINUTES", "a group is far behind"],
  ["time_lag('GROUP') > 600 FOR 2 MINUTES", "a group reads what is older than ten minutes"],
  ["state('GROUP') = 'EMPTY' AND lag('GROUP') > 0 FOR 1 MINUTE", "nobody reads for a group"],
  ["written('TOPIC') = 0 FOR 10 MINUTES", "nothing comes into a topic"],
  ["without_leader() > 0 FOR 30 SECONDS", "partitions cannot be reached"],
  ["not_in_sync() > 0 FOR 10 MINUTES", "copies are behind"],
  ["disk_free() < 0.15", "a disk is nearly full"],
  ["brokers() < 3 FOR 1 MINUTE", "a broker is missing"],
  ["findings('bad') > 0 FOR 2 MINUTES", "the overview finds something bad"],
];

const figure = (value: unknown): string => (value === null || value === undefined ? "not known" : typeof value === "number" ? (Number.isInteger(value) ? count(value) : value.toPrecision(4)) : String(value));

export default function AlertsPage() {
  const { cluster } = useHere();
  const [edited, setEdited] = useParam("edit");
  const plan = useSignal<PlanRequest | null>(null);
  const said = useSignal("");
  const base = `/api/c/${encodeURIComponent(cluster)}`;
  const loaded = useLoaded<Answer>(`${base}/alerts`);
  const operations = loaded.data?.operations;
  const may = needs(operations, "ALTER", "the cluster");
  const test = async (name: string) => {
    said.value = `Telling the targets of ${name}…`;
    try {
      const { errors } = await call<{ errors: Record<string, string> }>(`${base}/alerts/${encodeURIComponent(name)}/test`, { method: "POST", body: {} });
      const failed = Object.entries(errors).map(([target, error]) => `${target}: ${error}`);
      said.value = failed.length ? `Not everybody was told. ${failed.join("; ")}` : `The targets of ${name} were told that this is a test.`;
    } catch (cause) {
      said.value = (cause as Error).message;
    }
  };
  const columns: Column<Alert>[] = [
    {
      name: "Alert",
      cell: (row) => (
        <button class="link" {...may} onClick={() => setEdited(row.name)}>
          {row.name}
        </button>
      ),
    },
    { name: "State", cell: (row) => <Pill kind={row.state === "ringing" ? row.severity : row.state === "waiting" ? "warn" : "good"}>{row.state === "ringing" ? "ringing" : row.state === "waiting" ? "holds, waiting" : "quiet"}</Pill> },
    { name: "Since", hide: true, cell: (row) => (row.since_ms === null ? "–" : ago(row.since_ms)) },
    { name: "Condition", hide: true, cell: (row) => <span class="mono wrap">{row.condition}</span> },
    { name: "Now", hide: true, cell: (row) => <span class="wrap">{Object.entries(row.values).map(([name, value]) => <span key={name} class="clip" title={`${name} = ${figure(value)}`}>{figure(value)} </span>)}</span> },
    {
      name: "Tells",
      hide: true,
      cell: (row) => (
        <>
          {row.targets.length === 0 ? <span class="dim">nobody</span> : row.targets.join(", ")}
          {row.silenced_until_ms !== null && <Pill>silent until {clock(row.silenced_until_ms)}</Pill>}
          {Object.entries(row.errors).map(([target, error]) => (
            <Pill key={target} kind="bad">
              <span title={error}>{target} was not told</span>
            </Pill>
          ))}
        </>
      ),
    },
    {
      name: "Do",
      cell: (row) => (
        <span class="chips">
          <button class="btn" aria-label={`${row.silenced_until_ms === null ? "Silence" : "End the silence of"} ${row.name}`} {...may} onClick={() => (plan.value = { title: row.silenced_until_ms === null ? "Silence" : "End the silence", action: "silence-alert", arguments: { name: row.name, minutes: row.silenced_until_ms === null ? 60 : 0 } })}>
            {row.silenced_until_ms === null ? "Silence…" : "End silence…"}
          </button>
          <button class="btn m-hide" aria-label={`Test ${row.name}`} {...may} disabled={may.disabled === true || row.targets.length === 0} onClick={() => void test(row.name)}>
            Test
          </button>
          <button class="btn m-hide" aria-label={`Delete ${row.name}`} {...may} onClick={() => (plan.value = { title: "Delete alert", action: "delete-alert", arguments: { name: row.name } })}>
            Delete…
          </button>
        </span>
      ),
    },
  ];
  const ringing = loaded.data?.items.filter((each) => each.state === "ringing").length ?? 0;
  return (
    <>
      <Head title="Alerts" sub={ringing > 0 ? <Pill kind="bad">{ringing} ringing</Pill> : <span>{loaded.data ? plural(loaded.data.items.length, "alert") : " "}</span>}>
        <button class="btn go" {...may} disabled={may.disabled === true || loaded.data?.kept === false} onClick={() => setEdited("*")}>
          New alert…
        </button>
      </Head>
      {said.value && (
        <div class="callout gap" role="status">
          {said.value}
        </div>
      )}
      <Shown loaded={loaded}>
        {(data) => (
          <>
            <Partial said={data.partial} />
            {!data.kept && (
              <div class="callout gap">
                <b>No alerts are kept here:</b> <code>ottla.console.alerts.topic</code> is empty.
              </div>
            )}
            {data.trouble && (
              <div class="callout bad gap" role="status">
                <b>Alerts cannot be looked at.</b> {data.trouble}
              </div>
            )}
            {data.broken.length > 0 && (
              <div class="callout bad gap" role="status">
                <b>Some rules cannot be understood.</b> {data.broken.map((each) => `${each.name}: ${each.why}`).join("; ")}
              </div>
            )}
            <Card class="gap" label="Alerts">
              {data.items.length === 0 ? (
                <Empty title="There are no alerts.">An alert is a condition over what the console sees, such as lag('billing') &gt; 100000 FOR 5 MINUTES. It rings once, here and at whom you name.</Empty>
              ) : (
                <Rows rows={data.items} columns={columns} id={(row) => row.name} label="Alerts" />
              )}
            </Card>
            <Card title="Who can be told" right={plural(data.targets.length, "target")}>
              {data.targets.length === 0 ? (
                <Empty title="Nobody yet.">
                  Start the console with <code class="wrap">ottla.console.alerts.targets=NAME=https://…,NAME=mailto:…,NAME=topic:…</code>
                </Empty>
              ) : (
                <Rows rows={data.targets} columns={[{ name: "Target", cell: (row) => row.name }, { name: "Is a", cell: (row) => row.kind }]} id={(row) => row.name} label="Targets" />
              )}
            </Card>
            {edited && <Edit key={edited} data={data} name={edited} close={() => setEdited("")} done={loaded.again} />}
          </>
        )}
      </Shown>
      {plan.value && <PlanDialog request={plan.value} close={() => (plan.value = null)} done={loaded.again} />}
    </>
  );
}

function Edit({ data, name: edited, close, done }: { data: Answer; name: string; close: () => void; done: () => void }) {
  const { cluster } = useHere();
  const known = data.items.find((each) => each.name === edited);
  const name = useSignal(known?.name ?? "");
  const condition = useSignal(known?.condition ?? "");
  const severity = useSignal<string>(known?.severity ?? "bad");
  const targets = useSignal<string[]>(known?.targets ?? data.targets.map((each) => each.name));
  const checked = useSignal<{ error: string; holds: boolean | null; values: Record<string, unknown> } | null>(null);
  useEffect(() => {
    checked.value = null;
    if (!condition.value.trim()) return undefined;
    let gone = false;
    const timer = setTimeout(() => {
      call<{ error: string; holds: boolean | null; values: Record<string, unknown> }>(`/api/c/${encodeURIComponent(cluster)}/alerts/check`, { method: "POST", body: { condition: condition.value } })
        .then((answer) => {
          if (!gone) checked.value = answer;
        })
        .catch(() => undefined);
    }, 250);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [condition.value, cluster]);
  const ready = name.value.trim() !== "" && checked.value !== null && checked.value.error === "";
  const found = checked.value;
  return (
    <PlanDialog
      request={{ title: known ? "Change alert" : "Make alert", ...(ready ? { action: "set-alert", arguments: { name: name.value.trim(), condition: condition.value.trim(), severity: severity.value, targets: targets.value } } : {}) }}
      close={close}
      done={done}
    >
      <div class="form gap">
        {!known && <Field label="Name" value={name.value} set={(value) => (name.value = value)} first />}
        {!known && <Choice label="Begin with" value={PRESETS.some(([text]) => text === condition.value) ? condition.value : ""} set={(value) => (condition.value = value)} options={PRESETS} />}
        <Choice label="How bad" value={severity.value} set={(value) => (severity.value = value)} options={[["bad", "bad"], ["warn", "a warning"]]} />
      </div>
      <label class="stack gap">
        Condition
        <textarea class="area" rows={2} spellcheck={false} value={condition.value} onInput={(event) => (condition.value = event.currentTarget.value)} />
      </label>
      <p class={`gap-s ${found?.error ? "warn-text" : "dim"}`} role="status">
        {found === null
          ? condition.value.trim() ? "…" : "Figures, AND, OR, NOT, comparisons; FOR 5 MINUTES at the end: for how long it has to hold."
          : found.error || `${Object.entries(found.values).map(([text, value]) => `${text} = ${figure(value)}`).join(", ")}: it ${found.holds === true ? "holds now" : found.holds === false ? "does not hold now" : "is not known whether it holds"}.`}
      </p>
      {data.targets.length > 0 && (
        <fieldset class="choices gap">
          <legend>Tell</legend>
          {data.targets.map((each) => (
            <label key={each.name} class="check">
              <input type="checkbox" checked={targets.value.includes(each.name)} onChange={(event) => (targets.value = event.currentTarget.checked ? [...targets.value, each.name] : targets.value.filter((one) => one !== each.name))} />
              {each.name} <span class="dim">{each.kind}</span>
            </label>
          ))}
        </fieldset>
      )}
      <details class="gap">
        <summary>Figures</summary>
        <dl class="kv">
          {data.figures.map((each) => (
            <div key={each.name}>
              <dt class="mono">{each.name}</dt>
              <dd>{each.text}</dd>
            </div>
          ))}
        </dl>
      </details>
    </PlanDialog>
  );
}
