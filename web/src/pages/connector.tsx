// One connector: states with their traces, offsets, topics and configuration; and the form that a plugin asks for.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { call } from "../api";
import { count, duration, plural } from "../format";
import { Choice, Field, Head, Partial } from "../page";
import { Card, Empty, Pill, Rows, Segments, Shown, needs } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded } from "../state";
import { stateOf } from "./connect";

interface Progress {
  task: number;
  stalled: string | null;
  warnings: string[];
  records: number;
  moved_at_ms: number | null;
  waiting: number;
  oldest_waiting_ms: number | null;
  trouble: string | null;
  position: string[];
  source: string;
}

interface Whole {
  name: string;
  type: string;
  state: string;
  states: { part: string; state: string; worker: string; cause: string | null; trace: string }[];
  config: Record<string, string>;
  offsets: { partition: string; offset: string }[];
  offsets_text: string;
  topics: string[];
  progress: Progress[];
  partial: string[];
  operations: string[];
}

const ago = (ms: number): string => duration(Math.max(Date.now() - ms, 0));

export default function ConnectorPage({ workers, name }: { workers: string; name: string }) {
  const { cluster } = useHere();
  const [, go] = useLocation();
  const plan = useSignal<PlanRequest | null>(null);
  const editing = useSignal(false);
  const offsets = useSignal(false);
  const loaded = useLoaded<Whole>(`/api/c/${encodeURIComponent(cluster)}/connect/${encodeURIComponent(workers)}/connectors/${encodeURIComponent(name)}`);
  const target = { cluster: workers, name };
  const act = (title: string, action: string, more: object = {}) => (plan.value = { title, action, arguments: { ...target, ...more } });
  return (
    <Shown loaded={loaded}>
      {(data) => {
        const may = needs(data.operations, "ALTER", "the cluster");
        const failed = data.states.filter((each) => each.state === "FAILED");
        const still = data.progress.filter((each) => each.stalled);
        const leftOut = data.progress.flatMap((each) => each.warnings.map((said) => `Task ${each.task}: ${said}`));
        return (
          <>
            <Head
              title={name}
              sub={
                <>
                  <Pill kind={stateOf(data.state)}>{data.state}</Pill>
                  <span>{data.type}</span>
                  <span>{plural(data.states.length - 1, "task")}</span>
                  <span>
                    at <Link href={`/c/${cluster}/connect`}>{workers}</Link>
                  </span>
                </>
              }
            >
              {failed.length > 0 && (
                <button class="btn go" {...may} onClick={() => act("Restart what failed", "restart-connector")}>
                  Restart what failed…
                </button>
              )}
              {data.state === "RUNNING" || data.state === "FAILED" ? (
                <>
                  <button class="btn" {...may} onClick={() => act("Pause", "connector-state", { to: "paused" })}>
                    Pause…
                  </button>
                  <button class="btn" {...may} onClick={() => act("Stop", "connector-state", { to: "stopped" })}>
                    Stop…
                  </button>
                </>
              ) : (
                <button class="btn go" {...may} onClick={() => act("Resume", "connector-state", { to: "running" })}>
                  Resume…
                </button>
              )}
              <button class="btn m-hide" {...may} onClick={() => act("Restart", "restart-connector", { only_failed: false })}>
                Restart all…
              </button>
              <button class="btn" {...may} onClick={() => (editing.value = true)}>
                Configure…
              </button>
              <button class="btn danger" {...may} onClick={() => act("Delete connector", "delete-connector")}>
                Delete…
              </button>
            </Head>
            <Partial said={data.partial} />
            {failed.length > 0 && (
              <div class="callout bad gap">
                <b>{failed.length === 1 ? `The ${failed[0]?.part} has failed.` : `${failed.length} parts have failed.`}</b> {failed[0]?.cause}
              </div>
            )}
            {still.map((each) => (
              <div key={`still${each.task}`} class="callout gap">
                <b>Task {each.task} is {data.state} and does nothing:</b> {each.stalled}. Look at {data.type === "sink" ? "its target" : "its source"} and into the worker's log; where that is well, restart it.
              </div>
            ))}
            {leftOut.length > 0 && (
              <div class="callout gap">
                <b>What needs somebody:</b>
                <ul>
                  {leftOut.map((each) => (
                    <li key={each}>{each}</li>
                  ))}
                </ul>
              </div>
            )}
            <Card title="States">
              <Rows
                rows={data.states}
                id={(row) => row.part}
                label="States"
                columns={[
                  { name: "Part", cell: (row) => row.part },
                  { name: "State", cell: (row) => <Pill kind={stateOf(row.state)}>{row.state}</Pill> },
                  { name: "Worker", hide: true, cell: (row) => row.worker },
                  { name: "Why", hide: true, cell: (row) => <span class="clip" title={row.cause ?? ""}>{row.cause ?? ""}</span> },
                ]}
              />
            </Card>
            {data.progress.length > 0 && (
              <Card class="gap-top" title="Progress">
                <Rows
                  rows={data.progress}
                  id={(row) => String(row.task)}
                  label="Progress"
                  columns={[
                    { name: "Task", cell: (row) => row.task },
                    { name: data.type === "sink" ? "Taken" : "Told", num: true, cell: (row) => count(row.records) },
                    { name: "Last", cell: (row) => (row.moved_at_ms === null ? "none yet" : `${ago(row.moved_at_ms)} ago`) },
                    { name: "Waiting", num: true, cell: (row) => count(row.waiting) },
                    { name: "Oldest of them", hide: true, cell: (row) => (row.oldest_waiting_ms === null ? "" : ago(row.oldest_waiting_ms)) },
                    { name: "Position", hide: true, cell: (row) => <span class="mono clip" title={`${row.position.join(" ")} ${row.source}`}>{row.position.at(-1) ?? row.source}</span> },
                    { name: "Trouble", hide: true, cell: (row) => <span class="clip" title={row.trouble ?? ""}>{row.trouble ?? ""}</span> },
                  ]}
                />
              </Card>
            )}
            {failed.map((each) => (
              <Card key={each.part} class="gap-top" title={`Trace of the ${each.part}`}>
                <details class="body">
                  <summary>{each.cause}</summary>
                  <pre tabIndex={0}>{each.trace}</pre>
                </details>
              </Card>
            ))}
            <div class="grid gap-top">
              <Card class="c6" title="Configuration" right={`${Object.keys(data.config).length} settings`}>
                <dl class="kv body">
                  {Object.entries(data.config)
                    .sort(([a], [b]) => a.localeCompare(b))
                    .map(([key, value]) => (
                      <>
                        <dt key={`t${key}`} class="mono">
                          {key}
                        </dt>
                        <dd key={`d${key}`} class="mono wrap">
                          {value}
                        </dd>
                      </>
                    ))}
                </dl>
              </Card>
              <Card
                class="c6"
                title="Offsets"
                right={
                  <button class="btn" {...(data.state === "STOPPED" ? may : { disabled: true, title: "Stop it first: a running connector commits over what is set." })} onClick={() => (offsets.value = true)}>
                    Change…
                  </button>
                }
              >
                {data.offsets.length === 0 ? (
                  <Empty title="Nothing is committed yet." />
                ) : (
                  <Rows
                    rows={data.offsets.slice(0, 500)}
                    id={(row) => row.partition}
                    label="Offsets"
                    columns={[
                      { name: "Of", cell: (row) => <span class="mono clip">{row.partition}</span> },
                      { name: "Offset", cell: (row) => <span class="mono clip">{row.offset}</span> },
                    ]}
                  />
                )}
                {data.topics.length > 0 && (
                  <p class="body">
                    Topics:{" "}
                    {data.topics.map((each, index) => (
                      <>
                        {index ? ", " : ""}
                        <Link href={`/c/${cluster}/topics/${encodeURIComponent(each)}/messages`}>{each}</Link>
                      </>
                    ))}
                  </p>
                )}
              </Card>
            </div>
            {editing.value && <ConfigureConnector workers={workers} all={[workers]} name={name} config={data.config} close={() => (editing.value = false)} done={loaded.again} />}
            {offsets.value && <Offsets target={target} now={data.offsets_text} close={() => (offsets.value = false)} done={loaded.again} />}
            {plan.value && (
              <PlanDialog
                request={plan.value}
                close={() => (plan.value = null)}
                done={() => (plan.value?.action === "delete-connector" ? go(`/c/${cluster}/connect`) : loaded.again())}
              />
            )}
          </>
        );
      }}
    </Shown>
  );
}

function Offsets({ target, now, close, done }: { target: { cluster: string; name: string }; now: string; close: () => void; done: () => void }) {
  const how = useSignal("set");
  const text = useSignal(now);
  let wrong = "";
  if (how.value === "set") {
    try {
      JSON.parse(text.value);
    } catch (error) {
      wrong = `This is no JSON: ${(error as Error).message}`;
    }
  }
  const ready = how.value === "reset" || wrong === "";
  return (
    <PlanDialog request={{ title: "Change offsets", ...(ready ? { action: "connector-offsets", arguments: { ...target, ...(how.value === "set" ? { offsets: text.value } : {}) /* as text: a number here has 53 bits */ } } : {}) }} close={close} done={done}>
      <div class="gap">
        <Segments label="What to do" value={how.value} options={[["set", "Set them"], ["reset", "Begin anew"]]} set={(value) => (how.value = value)} />
      </div>
      {how.value === "set" && (
        <label class="stack gap">
          Offsets, as the connector keeps them; null begins anew
          <textarea class="area mono" rows={10} value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
        </label>
      )}
      {wrong && <p class="warn-text">{wrong}</p>}
    </PlanDialog>
  );
}

interface Asked {
  name: string;
  label: string;
  type: string;
  required: boolean;
  default: string | null;
  importance: string;
  group: string;
  documentation: string;
  values: string[];
  errors: string[];
  visible: boolean;
}

// What a plugin asks for, group by group, checked by the worker as one types; or the same as JSON.
export function ConfigureConnector(props: { workers: string; all: string[]; name?: string; config?: Record<string, string>; close: () => void; done: () => void }) {
  const { cluster } = useHere();
  const [, go] = useLocation();
  const workers = useSignal(props.workers);
  const name = useSignal(props.name ?? "");
  const config = useSignal<Record<string, string>>(props.config ?? {});
  const view = useSignal(props.config ? "json" : "form");
  const text = useSignal(JSON.stringify(props.config ?? {}, null, 2));
  const wrong = useSignal("");
  const fields = useSignal<Asked[]>([]);
  const all = useSignal(false);
  const base = `/api/c/${encodeURIComponent(cluster)}/connect/${encodeURIComponent(workers.value)}`;
  const plugins = useLoaded<{ items: { class: string; type: string; version: string }[] }>(`${base}/plugins`, false);
  const plugin = config.value["connector.class"] ?? "";
  const asked = JSON.stringify(config.value);
  useEffect(() => {
    if (!plugin) {
      fields.value = [];
      return undefined;
    }
    let gone = false;
    const timer = setTimeout(() => {
      call<{ fields: Asked[] }>(`${base}/validate`, { method: "POST", body: { config: { name: name.value, ...config.value } } })
        .then((answer) => {
          if (!gone) fields.value = answer.fields;
        })
        .catch((cause: unknown) => {
          if (!gone) wrong.value = (cause as Error).message;
        });
    }, 300);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [asked, base]);
  const set = (key: string, value: string) => {
    const next = { ...config.value };
    if (value === "") delete next[key];
    else next[key] = value;
    config.value = next;
    text.value = JSON.stringify(next, null, 2);
    wrong.value = "";
  };
  const typed = (value: string) => {
    text.value = value;
    try {
      const found = JSON.parse(value) as Record<string, unknown>;
      config.value = Object.fromEntries(Object.entries(found).map(([key, each]) => [key, String(each)]));
      wrong.value = "";
    } catch (error) {
      wrong.value = `This is no JSON: ${(error as Error).message}`;
    }
  };
  const shown = fields.value.filter((each) => each.visible && each.name !== "name" && each.name !== "connector.class" && (all.value || each.required || each.importance === "HIGH" || each.name in config.value || each.errors.length > 0));
  const groups = [...new Set(shown.map((each) => each.group))];
  const errors = fields.value.filter((each) => each.errors.length > 0 && each.name !== "name");
  const ready = name.value.trim() !== "" && plugin !== "" && wrong.value === "" && errors.length === 0;
  return (
    <PlanDialog
      request={{ title: props.name ? "Configure connector" : "Create connector", ...(ready ? { action: "configure-connector", arguments: { cluster: workers.value, name: name.value.trim(), config: config.value } } : {}) }}
      close={props.close}
      done={() => {
        props.done();
        if (!props.name) setTimeout(() => go(`/c/${cluster}/connect/${encodeURIComponent(workers.value)}/${encodeURIComponent(name.value.trim())}`), 50);
      }}
    >
      <div class="form gap">
        {!props.name && props.all.length > 1 && <Choice label="Workers" value={workers.value} set={(value) => (workers.value = value)} options={props.all} />}
        {!props.name && <Field label="Name" value={name.value} set={(value) => (name.value = value)} first />}
        <Choice label="Plugin" value={plugin} set={(value) => set("connector.class", value)} options={[["", "choose…"], ...[...new Set([...(plugins.data?.items ?? []).map((each) => each.class), ...(plugin ? [plugin] : [])])].map((each) => [each, each] as [string, string])]} />
      </div>
      <div class="bar1">
        <Segments label="As" value={view.value} options={[["form", "Form"], ["json", "JSON"]]} set={(value) => (view.value = value)} />
        {view.value === "form" && (
          <label class="check">
            <input type="checkbox" checked={all.value} onChange={(event) => (all.value = event.currentTarget.checked)} /> all settings
          </label>
        )}
      </div>
      {wrong.value && (
        <p class="warn-text gap" role="alert">
          {wrong.value}
        </p>
      )}
      {view.value === "json" ? (
        <label class="stack gap">
          Configuration; what is [hidden] stays as long as the address is unchanged
          <textarea class="area mono" rows={12} value={text.value} onInput={(event) => typed(event.currentTarget.value)} />
        </label>
      ) : (
        groups.map((group) => (
          <fieldset key={group} class="choices gap">
            <legend>{group}</legend>
            <div class="form">
              {shown
                .filter((each) => each.group === group)
                .map((each) => (
                  <div key={each.name} title={each.documentation}>
                    {each.values.length > 0 && each.values.length < 50 ? (
                      <Choice label={`${each.label}${each.required ? " *" : ""}`} value={config.value[each.name] ?? each.default ?? ""} set={(value) => set(each.name, value)} options={[...new Set(["", ...each.values])]} />
                    ) : (
                      <Field label={`${each.label}${each.required ? " *" : ""}`} type={each.type === "PASSWORD" ? "password" : "text"} placeholder={each.default ?? ""} value={config.value[each.name] ?? ""} set={(value) => set(each.name, value)} />
                    )}
                    {each.name in config.value && each.errors.map((one) => <p key={one} class="warn-text">{one}</p>)}
                  </div>
                ))}
            </div>
          </fieldset>
        ))
      )}
      {plugin && errors.length > 0 && (
        <p class="dim gap">
          Still needed: {errors.slice(0, 6).map((each) => each.name).join(", ")}
          {errors.length > 6 ? ` and ${errors.length - 6} more` : ""}
        </p>
      )}
    </PlanDialog>
  );
}
