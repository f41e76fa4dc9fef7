// SQL: what there is at a SQL server, an editor with errors at their places, rows as they come, the plan, running queries.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { call, type Frame } from "../api";
import { plural } from "../format";
import { type PlanRequest, PlanDialog } from "../plan";
import { Card, Cli, Empty, Icon, Pill, Segments, Shown, needs } from "../parts";
import { RowsChart } from "../rows-chart";
import { Saved } from "../saved";
import { useHere, useLoaded, useParam } from "../state";
import { Topology } from "../topology";

interface Source {
  name: string;
  topic: string;
  key_format: string | null;
  value_format: string | null;
  windowed: boolean;
}

interface Query {
  id: string;
  text: string;
  sinks: string[];
  kind: string;
  state: string;
}

interface Catalogue {
  url: string | null;
  error: string;
  operations: string[];
  streams: Source[];
  tables: Source[];
  queries: Query[];
}

interface Parsed {
  statements: { text: string; kind: "query" | "read" | "change" | "other" }[];
  error: { message: string; line: number | null; column: number | null } | null;
}

type Answer = { kind: "table"; names: string[]; rows: unknown[][] } | { kind: "plan"; plan: string; topology: string } | { kind: "json"; value: unknown };

const KEPT = 1000;
const STORED = "ottla.sql";
const WORDS = /('(?:[^']|'')*')|(--[^\n]*)|\b(\d+(?:\.\d+)?)\b|\b(SELECT|FROM|WHERE|GROUP BY|HAVING|PARTITION BY|EMIT CHANGES|EMIT FINAL|CREATE|OR REPLACE|STREAM|TABLE|AS|WITH|INSERT INTO|VALUES|WINDOW|TUMBLING|HOPPING|SESSION|SIZE|ADVANCE BY|GRACE PERIOD|JOIN|LEFT|FULL|OUTER|INNER|WITHIN|ON|AND|OR|NOT|NULL|IN|LIKE|BETWEEN|CASE|WHEN|THEN|ELSE|END|LIMIT|PRIMARY KEY|KEY|DROP|TERMINATE|PAUSE|RESUME|SHOW|LIST|DESCRIBE|EXPLAIN|SECONDS?|MINUTES?|HOURS?|DAYS?)\b/gi;

// The text once more below the letters that are typed, in colours: a text area shows none.
function Coloured({ text }: { text: string }) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(WORDS)) {
    parts.push(text.slice(at, found.index));
    const kind = found[1] ? "str" : found[2] ? "dim" : found[3] ? "nm" : "kw";
    parts.push(
      <span key={found.index} class={kind}>
        {found[0]}
      </span>,
    );
    at = found.index + found[0].length;
  }
  parts.push(text.slice(at), "\n");
  return <>{parts}</>;
}

const shown = (value: unknown): string => (value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value));

const offset = (text: string, line: number, column: number): number => {
  const lines = text.split("\n");
  return Math.min(text.length, lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1);
};

export default function SqlPage() {
  const { cluster, live } = useHere();
  const base = `/api/c/${encodeURIComponent(cluster)}/sql`;
  const loaded = useLoaded<Catalogue>(base);
  const [from, setFrom] = useParam("from", "latest");
  const [shape, setShape] = useParam("as", "rows");
  const text = useSignal(localStorage.getItem(STORED) ?? "");
  const names = useSignal<string[]>([]);
  const types = useSignal<string[]>([]);
  const rows = useSignal<unknown[][]>([]);
  const count = useSignal(0);
  const answers = useSignal<Answer[]>([]);
  const plan = useSignal("");
  const error = useSignal("");
  const running = useSignal(false);
  const ended = useSignal(false);
  const change = useSignal<PlanRequest | null>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const under = useRef<HTMLPreElement>(null);
  const stop = useRef<() => void>(() => undefined);
  useEffect(() => () => stop.current(), []);

  const wrong = (cause: unknown) => {
    error.value = (cause as Error).message;
    running.value = false;
  };
  const parsed = async (script: string): Promise<Parsed["statements"] | null> => {
    const found = await call<Parsed>(`${base}/parse`, { method: "POST", body: { statement: script } });
    if (!found.error) return found.statements;
    error.value = found.error.message;
    if (found.error.line && area.current && script === text.value) {
      const at = offset(script, found.error.line, found.error.column ?? 1);
      area.current.focus();
      area.current.setSelectionRange(at, Math.min(script.length, at + 1));
    }
    return null;
  };
  const clear = () => {
    stop.current();
    names.value = types.value = [];
    rows.value = [];
    answers.value = [];
    plan.value = error.value = "";
    count.value = 0;
    ended.value = false;
  };
  const follow = (statement: string) => {
    running.value = true;
    const end = live.listen("sql", { statement, from }, take);
    stop.current = () => {
      end();
      running.value = false;
    };
    void explain(statement, true);
  };
  const take = (frame: Frame) => {
    if (frame.type === "columns") {
      names.value = frame["names"] as string[];
      types.value = frame["types"] as string[];
    } else if (frame.type === "rows") {
      const found = frame["rows"] as unknown[][];
      count.value += found.length;
      rows.value = [...found.reverse(), ...rows.value].slice(0, KEPT);
    } else if (frame.type === "done") {
      running.value = false;
      ended.value = true;
      rows.value = [...rows.value].reverse();
    } else if (frame.type === "error") wrong(new Error(String(frame["message"])));
  };
  const run = async () => {
    clear();
    localStorage.setItem(STORED, text.value);
    try {
      const statements = await parsed(text.value);
      if (!statements || statements.length === 0) return;
      const chosen = statements.length === 1 ? statements : at(statements);
      for (const each of chosen) {
        if (each.kind === "query") follow(each.text);
        else if (each.kind === "read") answers.value = [...answers.value, ...(await call<{ answers: Answer[] }>(`${base}/read`, { method: "POST", body: { statement: each.text } })).answers];
        else if (each.kind === "change") change.value = { title: "Run a statement", action: "sql-statement", arguments: { statement: each.text } };
        else error.value = `${each.text.split(/\s/)[0]} is for \`ottla sql\`: a page has no session of its own. Records of a topic are on its page.`;
      }
      const said = answers.value.find((each) => each.kind === "plan");
      if (said?.kind === "plan") plan.value = said.topology;
    } catch (cause) {
      wrong(cause);
    }
  };
  // Of several statements the one in which the cursor stands is run.
  const at = (statements: Parsed["statements"]) => {
    const place = area.current?.selectionStart ?? 0;
    let end = 0;
    for (const each of statements) {
      end = text.value.indexOf(each.text, end) + each.text.length;
      if (place <= end) return [each];
    }
    return statements.slice(-1);
  };
  const explain = async (statement: string, quiet = false) => {
    try {
      const found = await call<{ answers: Answer[] }>(`${base}/read`, { method: "POST", body: { statement: `EXPLAIN ${statement.replace(/;?\s*$/, "")};` } });
      const said = found.answers[0];
      if (said?.kind === "plan") plan.value = said.topology;
    } catch (cause) {
      if (!quiet) wrong(cause);
    }
  };
  const explained = async () => {
    clear();
    try {
      const statements = await parsed(text.value);
      const one = statements && at(statements)[0];
      if (one) await explain(one.text);
    } catch (cause) {
      wrong(cause);
    }
  };
  const write = (words: string) => {
    const box = area.current;
    if (!box) return;
    const [first, last] = [box.selectionStart, box.selectionEnd];
    text.value = text.value.slice(0, first) + words + text.value.slice(last);
    requestAnimationFrame(() => {
      box.focus();
      box.setSelectionRange(first + words.length, first + words.length);
    });
  };
  const may = (data: Catalogue) => needs(data.operations, "ALTER", "the cluster");
  return (
    <>
      <h1 class="sr">SQL</h1>
      <Shown loaded={loaded}>
        {(data) =>
          data.url === null ? (
            <Card label="SQL">
              <Empty title="No SQL server is named.">
                Start one with <code>ottla sql server</code>, and the console with <code>--override ottla.console.sql.url=URL</code>.
              </Empty>
            </Card>
          ) : (
            <div class="sql">
              <Card class="m-hide" title="Catalogue" label="Catalogue">
                {data.error ? (
                  <div class="callout bad" role="status">
                    <b>It does not answer.</b> {data.error}
                  </div>
                ) : (
                  <ul class="tree scroll" tabIndex={0}>
                    <Sources label="Streams" sources={data.streams} base={base} write={write} />
                    <Sources label="Tables" sources={data.tables} base={base} write={write} />
                    <li class="h">Running</li>
                    {data.queries.length === 0 && <li class="dim">nothing</li>}
                    {data.queries.map((each) => (
                      <li key={each.id} title={each.text}>
                        <button class="link clip" onClick={() => (text.value = each.text)}>
                          {each.id}
                        </button>
                        <span class="ty">{(each.state ?? "").toLowerCase()}</span>
                        <button
                          class="btn quiet sq"
                          hidden={each.kind !== "PERSISTENT"}
                          {...may(data)}
                          aria-label={`End ${each.id}`}
                          onClick={() => (change.value = { title: "End a query", action: "sql-statement", arguments: { statement: `TERMINATE ${each.id};` } })}
                        >
                          <Icon name="stop" />
                        </button>
                      </li>
                    ))}
                  </ul>
                )}
              </Card>
              <div class="col">
                <Card
                  label="Statement"
                  title="Statement"
                  right={
                    <>
                      <Segments
                        label="Where a query begins"
                        value={from}
                        options={[
                          ["latest", "New rows"],
                          ["earliest", "From the start"],
                        ]}
                        set={setFrom}
                      />
                      <button class="btn" disabled={!text.value.trim()} onClick={() => void explained()}>
                        Explain
                      </button>
                      {running.value ? (
                        <button class="btn" onClick={() => stop.current()}>
                          <Icon name="stop" />
                          Stop
                        </button>
                      ) : (
                        <button class="btn go" {...may(data)} onClick={() => void run()}>
                          Run
                        </button>
                      )}
                    </>
                  }
                >
                  <div class="editor">
                    <pre ref={under} aria-hidden="true">
                      <Coloured text={text.value} />
                    </pre>
                    <textarea
                      ref={area}
                      aria-label="Statements, each with a semicolon; Ctrl Enter runs the one at the cursor"
                      spellcheck={false}
                      autocapitalize="off"
                      autocomplete="off"
                      rows={Math.max(6, Math.min(18, text.value.split("\n").length + 1))}
                      placeholder="SELECT * FROM orders EMIT CHANGES;"
                      value={text.value}
                      onInput={(event) => (text.value = event.currentTarget.value)}
                      onScroll={(event) => under.current?.scrollTo(event.currentTarget.scrollLeft, event.currentTarget.scrollTop)}
                      onKeyDown={(event) => {
                        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
                          event.preventDefault();
                          void run();
                        }
                      }}
                    />
                  </div>
                  <div class="under">
                    <Saved of={`sql.${cluster}`} what="statement" text={text.value} use={(each) => (text.value = each)} />
                  </div>
                  {error.value && (
                    <div class="callout bad" role="alert">
                      {error.value}
                    </div>
                  )}
                </Card>
                <Card
                  class="gap"
                  title="Result"
                  label="Result"
                  right={
                    <>
                      {running.value && <Pill kind="good">live</Pill>}
                      {names.value.length > 0 && <span class="m-hide">{plural(count.value, "row")}{count.value > KEPT ? `, the newest ${KEPT} shown` : ""}</span>}
                      {names.value.length > 0 && (
                        <Segments
                          label="How rows are shown"
                          value={shape}
                          options={[
                            ["rows", "Rows"],
                            ["chart", "Chart"],
                          ]}
                          set={setShape}
                        />
                      )}
                      {names.value.length > 0 && <button class="btn m-hide" onClick={() => save(names.value, rows.value)}>Save</button>}
                    </>
                  }
                >
                  {names.value.length > 0 && shape === "chart" ? (
                    <RowsChart names={names.value} types={types.value} rows={ended.value ? rows.value : [...rows.value].reverse()} />
                  ) : names.value.length > 0 ? (
                    <Result names={names.value} types={types.value} rows={rows.value} />
                  ) : answers.value.length > 0 ? (
                    answers.value.map((each, index) => (each.kind === "table" ? <Result key={index} names={each.names} types={[]} rows={each.rows} /> : each.kind === "plan" ? <pre key={index} class="plain">{each.plan}</pre> : <pre key={index} class="plain">{JSON.stringify(each.value, null, 2)}</pre>))
                  ) : (
                    <Empty title={running.value ? "No row has come yet." : "Nothing was run yet."}>{running.value ? (from === "latest" ? "The query shows rows from now on; “From the start” shows those that are there." : "") : "Ctrl Enter runs the statement at the cursor."}</Empty>
                  )}
                </Card>
              </div>
              <div class="col m-hide">
                <Card title="Plan" label="Plan">
                  {plan.value ? (
                    <Topology text={plan.value} />
                  ) : (
                    <Empty title="No query is shown.">“Explain” says what would be done, before anything is.</Empty>
                  )}
                </Card>
                <Card class="gap" title="The same on the command line" label="Command line">
                  <div class="body">
                    <Cli text={`ottla sql ${data.url}`} />
                  </div>
                </Card>
              </div>
            </div>
          )
        }
      </Shown>
      {change.value && <PlanDialog request={change.value} close={() => (change.value = null)} done={loaded.again} />}
    </>
  );
}

function save(names: string[], rows: unknown[][]) {
  const lines = rows.map((row) => JSON.stringify(Object.fromEntries(names.map((name, index) => [name, row[index]]))));
  const link = document.createElement("a");
  link.href = `data:application/x-ndjson;charset=utf-8,${encodeURIComponent(lines.join("\n"))}`;
  link.download = "rows.jsonl";
  link.click();
}

function Sources({ label, sources, base, write }: { label: string; sources: Source[]; base: string; write: (words: string) => void }) {
  const open = useSignal("");
  const fields = useSignal<{ name: string; type: string; key: boolean }[] | null>(null);
  const error = useSignal("");
  const show = (name: string) => {
    error.value = "";
    fields.value = null;
    open.value = open.value === name ? "" : name;
    if (open.value)
      call<{ fields: { name: string; type: string; key: boolean }[] }>(`${base}/sources/${encodeURIComponent(name)}`)
        .then((found) => (fields.value = found.fields))
        .catch((cause: unknown) => (error.value = (cause as Error).message));
  };
  return (
    <>
      <li class="h">{label}</li>
      {sources.length === 0 && <li class="dim">none</li>}
      {sources.map((each) => (
        <>
          <li key={each.name} title={`topic ${each.topic}`}>
            <button class="link clip" aria-expanded={open.value === each.name} onClick={() => show(each.name)}>
              {each.name}
            </button>
            <span class="ty">{each.value_format}</span>
          </li>
          {open.value === each.name && error.value && <li class="sub bad">{error.value}</li>}
          {open.value === each.name &&
            fields.value?.map((field) => (
              <li key={field.name} class="sub">
                <button class="link clip" onClick={() => write(field.name)}>
                  {field.name}
                </button>
                <span class="ty clip" title={field.type}>
                  {field.type}
                  {field.key ? " KEY" : ""}
                </span>
              </li>
            ))}
        </>
      ))}
    </>
  );
}

function Result({ names, types, rows }: { names: string[]; types: string[]; rows: unknown[][] }) {
  const numbers = names.map((_, index) => /^(INTEGER|BIGINT|DOUBLE|DECIMAL)/.test(types[index] ?? "") || rows.slice(0, 20).some((row) => typeof row[index] === "number"));
  return (
    <div class="scroll rows" tabIndex={0}>
      <table aria-label="Rows">
        <thead>
          <tr>
            {names.map((name, index) => (
              <th key={name} class={numbers[index] ? "num" : ""} title={types[index]}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, 300).map((row, number) => (
            <tr key={rows.length - number}>
              {names.map((name, index) => (
                <td key={name} class={numbers[index] ? "num mono" : "mono"} title={shown(row[index])}>
                  {shown(row[index])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
