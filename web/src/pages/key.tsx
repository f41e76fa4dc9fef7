// One key over time: every version that its partition keeps, what each changed, and how it was at a time.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Frame } from "../api";
import { count, moment, plural } from "../format";
import { difference } from "../lines";
import { Card, Empty, Pill, indented } from "../parts";
import { useHere, useParam } from "../state";
import type { RecordRow } from "../types";

const KEPT = 500;
const LINES = 400;

const linesOf = (row: RecordRow | undefined): string[] => {
  if (row === undefined || row.value.text === null) return [];
  const text = row.value.decoder === "json" ? indented(row.value.text).map((each) => each.text).join("") : row.value.text;
  return text.split("\n").slice(0, LINES);
};

export function KeyOverTime({ topic }: { topic: string }) {
  const { live } = useHere();
  const [key, setKey] = useParam("key");
  const [until, setUntil] = useParam("until");
  const [everywhere, setEverywhere] = useParam("everywhere");
  const typed = useSignal(key);
  const rows = useSignal<RecordRow[]>([]);
  const said = useSignal("");
  const error = useSignal("");
  const left = useSignal(0);
  const stop = useRef<() => void>(() => undefined);
  useEffect(() => {
    typed.value = key;
    rows.value = [];
    error.value = "";
    left.value = 0;
    said.value = key ? "searching…" : "";
    if (!key) return undefined;
    stop.current = live.listen("scan", { topic, from: "oldest", key, hits: 5000, ...(everywhere ? { everywhere: true } : {}) }, (frame: Frame) => {
      if (frame.type === "rows") {
        const all = [...rows.value, ...(frame["rows"] as RecordRow[])];
        left.value += Math.max(0, all.length - KEPT);
        rows.value = all.slice(-KEPT);
      } else if (frame.type === "error") {
        error.value = String(frame["message"]);
        said.value = "";
      } else if (frame.type === "done") said.value = frame["limit"] ? `It stopped after ${String(frame["limit"])}.` : "";
    });
    return () => stop.current();
  }, [topic, key, everywhere]);
  const limit = until ? new Date(until).getTime() : Infinity;
  const shown = rows.value.filter((each) => each.timestamp <= limit);
  const newest = shown[shown.length - 1];
  return (
    <>
      <form
        class="bar1"
        onSubmit={(event) => {
          event.preventDefault();
          setKey(typed.value, false);
        }}
      >
        <label class="field grow">
          <span class="lb">key</span>
          <input class="bare mono" autocomplete="off" data-focus="filter" placeholder="exactly, as text" value={typed.value} onInput={(event) => (typed.value = event.currentTarget.value)} />
        </label>
        <label class="field">
          <span class="lb">as of</span>
          <input class="bare" type="datetime-local" step="1" value={until} onChange={(event) => setUntil(event.currentTarget.value)} />
        </label>
        <label class="field" title="Kafka's partitioner (murmur2) says where a key lies; other producers may have put it elsewhere">
          <input type="checkbox" checked={everywhere === "1"} onChange={(event) => setEverywhere(event.currentTarget.checked ? "1" : "")} />
          all partitions
        </label>
        <button class="btn go">Show</button>
      </form>
      {error.value && (
        <div class="callout bad gap" role="alert">
          {error.value}
        </div>
      )}
      <p class="dim gap" role="status">
        {key && !error.value ? `${plural(shown.length, "version")}${left.value ? ` (${count(left.value)} older ones not shown)` : ""} ${said.value}` : ""}
      </p>
      {!key ? (
        <Card label="A key over time">
          <Empty title="Which key?">Each of its records that is still there is shown, with what it changed.</Empty>
        </Card>
      ) : shown.length === 0 && !said.value && !error.value ? (
        <Card label="A key over time">
          <Empty title="No record has this key.">{everywhere ? "" : "Only the partition was looked at where Kafka's partitioner puts it; “all partitions” looks everywhere."}</Empty>
        </Card>
      ) : (
        [...shown].reverse().map((row, index) => {
          const before = shown[shown.length - 2 - index];
          return (
            <Card
              key={`${row.partition}-${row.offset}`}
              class="gap"
              title={<span class="mono">{moment(row.timestamp)}</span>}
              right={
                <>
                  {row === newest && <Pill kind="good">{until ? "as of then" : "now"}</Pill>}
                  {row.value.text === null && <Pill>deleted</Pill>}
                  <span class="dim">
                    partition {row.partition}, offset {count(row.offset)}
                  </span>
                </>
              }
            >
              <pre tabIndex={0} class="diff body">
                {difference(linesOf(before), linesOf(row)).map((line, at) => (
                  <div key={at} class={before === undefined ? "" : line.kind === "+" ? "new" : line.kind === "-" ? "gone" : ""}>
                    {before === undefined ? " " : line.kind || " "} {line.text}
                  </div>
                ))}
              </pre>
            </Card>
          );
        })
      )}
    </>
  );
}
