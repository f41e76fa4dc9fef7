// The message browser: where to begin, a condition, what was looked at, the records that were found, and one of them whole.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Link } from "wouter-preact";
import { call, session, type Frame } from "../api";
import { bytesText, count, moment, short } from "../format";
import { Card, Cli, Copy, Dialog, Empty, Icon, Json, Rail, Segments, marked } from "../parts";
import { Saved } from "../saved";
import { useHere, useParam } from "../state";
import type { Part, RecordRow } from "../types";

interface RailState {
  partition: number;
  start: number;
  end: number;
  looked: [number, number] | null;
}

interface Progress {
  hits: number;
  records: number;
  bytes: number;
  per_s: number;
  rails: RailState[];
}

interface Done {
  reason: string;
  limit: string | null;
  cursor: Record<string, number>;
}

const KEPT = 2000;
const RAILS = 24;

export function Messages({ topic, partitions }: { topic: string; partitions: number }) {
  const { cluster, live } = useHere();
  const [from, setFrom] = useParam("from", "newest");
  const [at, setAt] = useParam("at");
  const [where, setWhere] = useParam("where");
  const [partition, setPartition] = useParam("partition");
  const [hits, setHits] = useParam("hits", "100");
  const [keyAs, setKeyAs] = useParam("key-as");
  const [valueAs, setValueAs] = useParam("value-as");
  const [open, setOpen] = useParam("record");
  const typed = useSignal(where);
  const rows = useSignal<RecordRow[]>([]);
  const progress = useSignal<Progress | null>(null);
  const done = useSignal<Done | null>(null);
  const error = useSignal("");
  const skipped = useSignal(0);
  const running = useSignal(false);
  const stop = useRef<() => void>(() => undefined);
  const decoders = { ...(keyAs ? { key_decoder: keyAs } : {}), ...(valueAs ? { value_decoder: valueAs } : {}) };
  const run = (cursor?: Record<string, number>) => {
    stop.current();
    if (!cursor) {
      rows.value = [];
      progress.value = null;
      skipped.value = 0;
    }
    done.value = null;
    error.value = "";
    const start = from === "offset" || from === "time" ? position(from, at) : 0;
    if (start === null) {
      error.value = from === "offset" ? "Say at which offset to begin." : "Say at which time to begin.";
      running.value = false;
      return;
    }
    running.value = true;
    const args = {
      topic,
      from,
      where,
      hits: Number(hits),
      ...(from === "offset" || from === "time" ? { at: start } : {}),
      ...(partition ? { partitions: [Number(partition)] } : {}),
      ...decoders,
      ...(cursor ? { cursor } : {}),
    };
    const end = live.listen("scan", args, (frame) => take(frame));
    stop.current = () => {
      end();
      running.value = false;
    };
  };
  const take = (frame: Frame) => {
    if (frame.type === "rows") {
      const found = frame["rows"] as RecordRow[];
      rows.value = from === "live" ? [...found.reverse(), ...rows.value].slice(0, KEPT) : [...rows.value, ...found];
      skipped.value += Number(frame["skipped"] ?? 0);
    } else if (frame.type === "progress") {
      progress.value = frame as unknown as Progress;
      skipped.value += Number(frame["skipped"] ?? 0);
    } else if (frame.type === "done") {
      done.value = frame as unknown as Done;
      running.value = false;
    } else if (frame.type === "error") {
      error.value = String(frame["message"]);
      running.value = false;
    }
  };
  useEffect(() => {
    run();
    return () => stop.current();
  }, [topic, from, at, where, partition, hits, keyAs, valueAs]);
  const chosen = rows.value.find((each) => `${each.partition}-${each.offset}` === open);
  const words = [...where.matchAll(/'([^']+)'/g)].map((each) => each[1] ?? "").concat(/[=<>']/.test(where) ? [] : where.split(/\s+/));
  return (
    <>
      <div class="bar1">
        <Segments
          label="Where to begin"
          value={from}
          options={[
            ["newest", "Newest"],
            ["oldest", "Oldest"],
            ["offset", "Offset"],
            ["time", "Time"],
            ["live", "Live"],
          ]}
          set={setFrom}
        />
        {from === "offset" && <input class="field short" type="number" min="0" aria-label="Offset" placeholder="offset" value={at} onChange={(event) => setAt(event.currentTarget.value)} />}
        {from === "time" && <input class="field" type="datetime-local" step="1" aria-label="Time" value={at} onChange={(event) => setAt(event.currentTarget.value)} />}
        <form
          class="field filter"
          onSubmit={(event) => {
            event.preventDefault();
            if (typed.value === where) run();
            else setWhere(typed.value);
          }}
        >
          <label class="lb" for="where">
            where
          </label>
          <input
            id="where"
            class="bare mono"
            data-focus="filter"
            autocomplete="off"
            spellcheck={false}
            placeholder="value.status = 'FAILED' AND value.amount > 250, or words"
            value={typed.value}
            onInput={(event) => (typed.value = event.currentTarget.value)}
          />
        </form>
        {running.value ? (
          <button class="btn" onClick={() => stop.current()}>
            <Icon name="stop" />
            Stop
          </button>
        ) : (
          <button class="btn go" onClick={() => (typed.value === where ? run() : setWhere(typed.value))}>
            Search
          </button>
        )}
        <label class="field m-hide">
          <span class="lb">partition</span>
          <select class="bare" value={partition} onChange={(event) => setPartition(event.currentTarget.value)}>
            <option value="">all</option>
            {Array.from({ length: Math.min(partitions, 1000) }, (_, index) => (
              <option key={index} value={String(index)}>
                {index}
              </option>
            ))}
          </select>
        </label>
        <label class="field m-hide">
          <span class="lb">stop after</span>
          <select class="bare" value={hits} onChange={(event) => setHits(event.currentTarget.value)}>
            {["100", "500", "2000", "5000"].map((each) => (
              <option key={each} value={each}>
                {each} hits
              </option>
            ))}
          </select>
        </label>
        <As label="key as" value={keyAs} set={setKeyAs} />
        <As label="value as" value={valueAs} set={setValueAs} />
        <Saved
          key={topic}
          of={`where.${cluster}.${topic}`}
          what="condition"
          text={typed.value}
          use={(text) => {
            typed.value = text;
            setWhere(text);
          }}
        />
        {from !== "live" && <Export args={{ topic, from, where, ...decoders, ...(from === "offset" || from === "time" ? { at: position(from, at) ?? 0 } : {}), ...(partition ? { partitions: [Number(partition)] } : {}) }} />}
        {from !== "live" && (
          <Link class="btn m-hide" href={`/c/${cluster}/replays?new=${encodeURIComponent(topic)}${where ? `&where=${encodeURIComponent(where)}` : ""}`}>
            Replay…
          </Link>
        )}
      </div>
      {error.value && (
        <div class="callout bad gap pre" role="alert">
          {error.value}
        </div>
      )}
      {progress.value && <Scanned progress={progress.value} rows={rows.value} running={running.value} done={done.value} live={from === "live"} skipped={skipped.value} />}
      <div class={chosen ? "split" : ""}>
        <Card label="Records">
          {rows.value.length === 0 ? (
            running.value ? (
              from === "live" ? <Empty title="Waiting for the next record…" /> : <div class="loading" role="status" aria-busy="true" aria-label="Searching" />
            ) : error.value ? null : (
              <Empty title={where ? "Nothing here fits the condition." : "There are no records."}>{where ? "A name that is not there is NULL, and NULL is no hit." : "Produce… writes one."}</Empty>
            )
          ) : (
            <Table rows={rows.value} open={open} setOpen={setOpen} words={words} narrow={chosen !== undefined} />
          )}
          {done.value && done.value.limit && (
            <p class="body">
              <button class="btn" onClick={() => run(done.value?.cursor)}>
                Go on from here
              </button>{" "}
              <span class="dim">It stopped after {done.value.limit}.</span>
            </p>
          )}
        </Card>
        {chosen && <Detail topic={topic} row={chosen} words={words} close={() => setOpen("")} />}
      </div>
    </>
  );
}

// By which decoder keys or values are read, where the first that fits is not the right one.
function As({ label, value, set }: { label: string; value: string; set: (value: string) => void }) {
  return (
    <label class="field m-hide">
      <span class="lb">{label}</span>
      <select class="bare" value={value} onChange={(event) => set(event.currentTarget.value)}>
        <option value="">what fits</option>
        {["json", "text", "msgpack", "cbor", "int32", "int64", "hex"].map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </label>
  );
}

// A search's records as a file; it is searched anew, so that it has all hits and not only those that are shown.
function Export({ args }: { args: object }) {
  const { cluster } = useHere();
  const said = useSignal("");
  const load = async (format: string) => {
    if (!format) return;
    said.value = "exporting…";
    try {
      const answer = await fetch(`/api/c/${encodeURIComponent(cluster)}/export`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Ottla-Token": session.value?.token ?? "" },
        body: JSON.stringify({ ...args, format }),
      });
      if (!answer.ok) throw new Error(String(((await answer.json()) as { message?: string }).message));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await answer.blob());
      link.download = `${String((args as { topic: string }).topic)}.${format}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
      said.value = "";
    } catch (error) {
      said.value = (error as Error).message;
    }
  };
  return (
    <label class="field m-hide">
      <span class="lb">{said.value || "export"}</span>
      <select class="bare" value="" onChange={(event) => void load(event.currentTarget.value)}>
        <option value="">as…</option>
        <option value="jsonl">JSON lines</option>
        <option value="csv">CSV</option>
        <option value="parquet">Parquet</option>
      </select>
    </label>
  );
}

const isJson = (decoder: string): boolean => ["json", "msgpack", "cbor"].includes(decoder);

function position(from: string, at: string): number | null {
  if (!at) return null;
  const found = from === "time" ? new Date(at).getTime() : Number(at);
  return Number.isFinite(found) && found >= 0 ? found : null;
}

function Scanned(props: { progress: Progress; rows: RecordRow[]; running: boolean; done: Done | null; live: boolean; skipped: number }) {
  const { progress, rows } = props;
  const hits = new Map<number, number[]>();
  for (const row of rows) {
    const found = hits.get(row.partition) ?? [];
    if (found.length < 200) found.push(row.offset);
    hits.set(row.partition, found);
  }
  const looked = progress.rails.reduce((sum, each) => sum + (each.looked ? each.looked[1] - each.looked[0] : 0), 0);
  const all = progress.rails.reduce((sum, each) => sum + Math.max(0, each.end - each.start), 0);
  const how = props.running ? "searching" : props.done ? (props.done.reason === "limit" ? "stopped" : props.done.reason === "end" ? "to the end" : "to the beginning") : "stopped";
  return (
    <div class="card scan">
      <div class="rails">
        {progress.rails.slice(0, RAILS).map((each) => (
          <div key={each.partition}>
            <span class="rail-n">{each.partition}</span>
            <Rail start={each.start} end={each.end} looked={each.looked} hits={hits.get(each.partition) ?? []} />
          </div>
        ))}
        {progress.rails.length > RAILS && <div>and {progress.rails.length - RAILS} more</div>}
      </div>
      <div class="said" role="status">
        {props.live ? (
          <>
            <b>{count(progress.hits)} records</b>
            <br />
            <span class="dim">live{props.skipped ? `; ${count(props.skipped)} not shown, as they come too fast` : ""}</span>
          </>
        ) : (
          <>
            <b>{count(rows.length)} hits</b> in {count(looked)} of {count(all)} offsets
            <br />
            <span class="dim">
              {short(progress.per_s).join(" ").trim()} records/s, {bytesText(progress.bytes)}, {how}
            </span>
          </>
        )}
      </div>
    </div>
  );
}

const line = (part: Part): string => (part.text === null ? "null" : part.text.length > 400 ? `${part.text.slice(0, 400)}…` : part.text);

function Table({ rows, open, setOpen, words, narrow }: { rows: RecordRow[]; open: string; setOpen: (value: string) => void; words: string[]; narrow: boolean }) {
  const shown = useSignal(200);
  const move = (event: KeyboardEvent) => {
    const step = event.key === "j" || event.key === "ArrowDown" ? 1 : event.key === "k" || event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const here = rows.findIndex((each) => `${each.partition}-${each.offset}` === open);
    const next = rows[Math.min(rows.length - 1, Math.max(0, here + step))];
    if (next) setOpen(`${next.partition}-${next.offset}`);
  };
  return (
    <>
      <table class="msgs" aria-label="Records" onKeyDown={move}>
        <thead>
          <tr>
            <th class="num w-part">Part</th>
            <th class="num w-offset">Offset</th>
            <th class="w-time m-hide">Time</th>
            <th class="w-key">Key</th>
            <th>Value</th>
            {!narrow && <th class="num w-bytes m-hide">Bytes</th>}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown.value).map((row) => {
            const id = `${row.partition}-${row.offset}`;
            return (
              <tr key={id} aria-selected={open === id} onClick={() => setOpen(open === id ? "" : id)}>
                <td class="num">{row.partition}</td>
                <td class="num">
                  <button class="link mono" aria-expanded={open === id} aria-label={`Record ${row.offset} of partition ${row.partition}`}>
                    {count(row.offset)}
                  </button>
                </td>
                <td class="m-hide dim">{moment(row.timestamp)}</td>
                <td class={row.key.text === null ? "dim" : ""}>{marked(line(row.key), words)}</td>
                <td class={row.value.text === null ? "dim" : ""}>{marked(line(row.value), words)}</td>
                {!narrow && <td class="num m-hide dim">{count(row.value.bytes)}</td>}
              </tr>
            );
          })}
        </tbody>
      </table>
      {rows.length > shown.value && (
        <p class="body">
          <button class="btn" onClick={() => (shown.value += 300)}>
            Show {Math.min(300, rows.length - shown.value)} more rows
          </button>
        </p>
      )}
    </>
  );
}

function Detail({ topic, row, words, close }: { topic: string; row: RecordRow; words: string[]; close: () => void }) {
  const { cluster } = useHere();
  const tab = useSignal("value");
  const whole = useSignal<RecordRow | null>(null);
  const failed = useSignal("");
  const resend = useSignal(false);
  useEffect(() => {
    whole.value = null;
    failed.value = "";
    call<RecordRow>(`/api/c/${encodeURIComponent(cluster)}/topics/${encodeURIComponent(topic)}/records/${row.partition}/${row.offset}`)
      .then((answer) => (whole.value = answer))
      .catch((error: unknown) => (failed.value = (error as Error).message));
  }, [topic, row.partition, row.offset]);
  const record = whole.value ?? row;
  return (
    <section class="card detail" aria-label="One record">
      <header>
        <h2 class="mono">
          {topic}-{row.partition} @ {count(row.offset)}
        </h2>
        <button class="btn quiet sq last" aria-label="Close the record" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <div class="tabs in-card" role="group" aria-label="Part of the record">
        {(
          [
            ["value", "Value"],
            ["key", "Key"],
            ["headers", `Headers ${record.headers.length}`],
            ["why", "Decoder"],
          ] as const
        ).map(([key, name]) => (
          <button key={key} class="tab" aria-pressed={tab.value === key} onClick={() => (tab.value = key)}>
            {name}
          </button>
        ))}
      </div>
      <div class="body">
        {failed.value && <p class="warn-text">{failed.value}</p>}
        {tab.value === "value" && <Whole part={record.value} words={words} />}
        {tab.value === "key" && <Whole part={record.key} words={words} />}
        {tab.value === "headers" &&
          (record.headers.length === 0 ? (
            <p class="dim">It has no headers.</p>
          ) : (
            <dl class="kv">
              {record.headers.map((each, index) => (
                <>
                  <dt key={`t${index}`}>{each.name}</dt>
                  <dd key={`d${index}`} class="mono wrap">
                    {each.text ?? "null"}
                  </dd>
                </>
              ))}
            </dl>
          ))}
        {tab.value === "why" && <Why part={record.value} />}
      </div>
      <div class="foot">
        <span class="dim">{moment(row.timestamp)}</span>
        {record.key.text !== null && record.key.decoder === "text" && (
          <Link class="btn last" href={`/c/${cluster}/topics/${encodeURIComponent(topic)}/key?key=${encodeURIComponent(record.key.text)}`}>
            This key over time
          </Link>
        )}
        <button class="btn" disabled={(record.masked?.length ?? 0) > 0} title={record.masked?.length ? `${record.masked.join(", ")} is masked: what is shown is not what was written` : undefined} onClick={() => (resend.value = true)}>
          Edit and resend…
        </button>
      </div>
      <div class="foot">
        <Cli text={`ottla consume ${topic} -p ${row.partition} --from ${row.offset} -n 1`} />
      </div>
      {resend.value && <Produce topic={topic} record={record} close={() => (resend.value = false)} />}
    </section>
  );
}

function Whole({ part, words }: { part: Part; words: string[] }) {
  return (
    <>
      <p class="dim gap-b">
        {part.decoder === "null" ? "null: a tombstone where the topic is compacted" : `${part.by ?? part.decoder}, ${bytesText(part.bytes)}`}
        {part.schema_id !== undefined ? `; looks like a registry's frame of schema ${part.schema_id}` : ""}
        {part.cut ? "; cut at 32 KiB" : ""}
        {part.text !== null && <Copy text={part.text} label="Copy" />}
      </p>
      {part.text !== null && (isJson(part.decoder) ? <Json text={part.text} find={words} /> : <pre tabIndex={0}>{marked(part.text, words)}</pre>)}
    </>
  );
}

function Why({ part }: { part: Part }) {
  return (
    <dl class="kv">
      <dt>{part.decoder}</dt>
      <dd>fits</dd>
      {(part.attempts ?? []).map((each) => (
        <>
          <dt key={each.decoder}>{each.decoder}</dt>
          <dd key={`${each.decoder}-`}>{each.reason}</dd>
        </>
      ))}
    </dl>
  );
}

export function Produce({ topic, record, close }: { topic: string; record?: RecordRow; close: () => void }) {
  const { cluster } = useHere();
  const key = useSignal(record?.key.text ?? "");
  const value = useSignal(record?.value.text ?? "");
  const noKey = useSignal(record ? record.key.text === null : false);
  const tombstone = useSignal(record ? record.value.text === null : false);
  const headers = useSignal(record ? record.headers.map((each) => `${each.name}: ${each.text ?? ""}`).join("\n") : "");
  const error = useSignal("");
  const done = useSignal("");
  const binary = record !== undefined && [record.key, record.value].some((each) => each.by !== undefined || !["json", "text", "null"].includes(each.decoder));
  const send = async () => {
    error.value = done.value = "";
    const pairs = headers.value
      .split("\n")
      .filter((each) => each.trim())
      .map((each) => {
        const colon = each.indexOf(":");
        return colon < 0 ? { name: each.trim(), value: "" } : { name: each.slice(0, colon).trim(), value: each.slice(colon + 1).trim() };
      });
    try {
      const answer = await call<{ partition: number; offset: number }>(`/api/c/${encodeURIComponent(cluster)}/topics/${encodeURIComponent(topic)}/records`, {
        method: "POST",
        body: { key: noKey.value ? null : key.value, value: tombstone.value ? null : value.value, headers: pairs },
      });
      done.value = `Written to partition ${answer.partition} at offset ${answer.offset}.`;
    } catch (cause) {
      error.value = (cause as Error).message;
    }
  };
  return (
    <Dialog
      title={record ? "Edit and resend" : `Produce to ${topic}`}
      close={close}
      wide
      footer={
        <>
          <span role="status" class="dim">
            {done.value}
          </span>
          <button class="btn" onClick={close}>
            Close
          </button>
          <button class="btn go" onClick={() => void send()}>
            Write the record
          </button>
        </>
      }
    >
      {binary && <div class="callout gap">Its key or value was no text, or was written by a schema: what is shown would be written as it is shown, as text.</div>}
      {error.value && (
        <div class="callout bad gap" role="alert">
          {error.value}
        </div>
      )}
      <div class="stack-all">
        <label class="stack">
          Key
          <input class="field mono" autofocus disabled={noKey.value} value={key.value} onInput={(event) => (key.value = event.currentTarget.value)} />
        </label>
        <label class="check">
          <input type="checkbox" checked={noKey.value} onChange={(event) => (noKey.value = event.currentTarget.checked)} /> no key
        </label>
        <label class="stack">
          Value
          <textarea class="area mono" rows={8} disabled={tombstone.value} value={value.value} onInput={(event) => (value.value = event.currentTarget.value)} />
        </label>
        <label class="check">
          <input type="checkbox" checked={tombstone.value} onChange={(event) => (tombstone.value = event.currentTarget.checked)} /> no value: a tombstone
        </label>
        <label class="stack">
          Headers, one a line as name: value
          <textarea class="area mono" rows={2} value={headers.value} onInput={(event) => (headers.value = event.currentTarget.value)} />
        </label>
      </div>
    </Dialog>
  );
}
