// Replays: records of one topic that are written to another, how far each has come, and a form for a new one.
import { useSignal } from "@preact/signals";
import { Link } from "wouter-preact";
import { ago } from "../ago";
import { call } from "../api";
import { count, plural } from "../format";
import { Choice, Field, Head } from "../page";
import { Bar, Card, type Column, Empty, Pill, Rows, Shown } from "../parts";
import { PlanDialog } from "../plan";
import { useHere, useLoaded, useParam } from "../state";

interface Row {
  id: string;
  source: string;
  target: string;
  where: string;
  rate: number | null;
  offsets: number;
  who: string;
  error: string;
  created_ms: number;
  changed_ms: number;
  state: "running" | "paused" | "done" | "cancelled" | "failed" | "interrupted";
  written: number;
  share: number | null;
  trouble: string;
  letters: { cause: string | null; fix: string | null } | null;
}

const KINDS: Record<Row["state"], string> = { running: "good", paused: "", done: "good", cancelled: "", failed: "bad", interrupted: "warn" };

const wanted = (row: Row): string => row.where || (row.letters ? (row.letters.cause ?? "all dead letters") : "–");

const goal = (row: Row): string => row.target || `where ${row.source} came from`;

export default function ReplaysPage() {
  const { cluster } = useHere();
  const [source, setSource] = useParam("new");
  const said = useSignal("");
  const base = `/api/c/${encodeURIComponent(cluster)}`;
  const loaded = useLoaded<{ items: Row[] }>(`${base}/replays`);
  const act = async (row: Row, what: "pause" | "resume" | "cancel") => {
    said.value = "";
    try {
      await call(`${base}/replays/${row.id}/${what}`, { method: "POST", body: {} });
    } catch (cause) {
      said.value = (cause as Error).message;
    }
    loaded.again();
  };
  const topic = (name: string) => (
    <Link class="clip named" title={name} href={`/c/${cluster}/topics/${encodeURIComponent(name)}/messages`}>
      {name}
    </Link>
  );
  const columns: Column<Row>[] = [
    { name: "From", cell: (row) => topic(row.source) },
    { name: "To", cell: (row) => (row.target ? topic(row.target) : <span class="dim">where they came from</span>) },
    {
      name: "State",
      cell: (row) => (
        <>
          <Pill kind={KINDS[row.state]}>{row.state}</Pill>
          {(row.error || row.trouble) && (
            <span class="clip named warn-text" title={row.error || row.trouble}>
              {row.error || `tried again: ${row.trouble}`}
            </span>
          )}
        </>
      ),
    },
    { name: "Done", hide: true, cell: (row) => (row.share === null ? row.state === "done" ? "all" : "–" : <div class="with-bar"><Bar share={row.share} />{Math.floor(row.share * 100)} %</div>) },
    { name: "Written", num: true, hide: true, cell: (row) => count(row.written) },
    { name: "Where", hide: true, cell: (row) => <span class="clip named mono" title={wanted(row)}>{wanted(row)}</span> },
    { name: "At most", num: true, hide: true, cell: (row) => (row.rate === null ? "–" : `${count(row.rate)}/s`) },
    { name: "By", hide: true, cell: (row) => <span class="clip">{row.who}, {ago(row.created_ms)}</span> },
    {
      name: "Do",
      cell: (row) => (
        <span class="chips">
          {row.state === "running" && (
            <button class="btn" aria-label={`Pause the replay to ${goal(row)}`} onClick={() => void act(row, "pause")}>
              Pause
            </button>
          )}
          {(row.state === "paused" || row.state === "failed" || row.state === "interrupted") && (
            <button class="btn" aria-label={`Go on with the replay to ${goal(row)}`} onClick={() => void act(row, "resume")}>
              Go on
            </button>
          )}
          {row.state !== "done" && row.state !== "cancelled" && (
            <button class="btn m-hide" aria-label={`Cancel the replay to ${goal(row)}`} onClick={() => void act(row, "cancel")}>
              Cancel
            </button>
          )}
        </span>
      ),
    },
  ];
  return (
    <>
      <Head title="Replays" sub={<span>{loaded.data ? plural(loaded.data.items.length, "replay") : " "}</span>}>
        <button class="btn go" onClick={() => setSource("*")}>
          New replay…
        </button>
      </Head>
      {said.value && (
        <div class="callout bad gap" role="alert">
          {said.value}
        </div>
      )}
      <Shown loaded={loaded}>
        {(data) => (
          <Card label="Replays">
            {data.items.length === 0 ? (
              <Empty title="Nothing is replayed.">A replay writes the records of a topic that a condition finds to another topic, each once, at the rate that you say.</Empty>
            ) : (
              <Rows rows={data.items} columns={columns} id={(row) => row.id} label="Replays" />
            )}
          </Card>
        )}
      </Shown>
      {source && <NewReplay source={source === "*" ? "" : source} close={() => setSource("")} done={loaded.again} />}
    </>
  );
}

function NewReplay({ source: given, close, done }: { source: string; close: () => void; done: () => void }) {
  const [asked] = useParam("where");
  const source = useSignal(given);
  const target = useSignal("");
  const where = useSignal(asked);
  const start = useSignal("oldest");
  const at = useSignal("");
  const rate = useSignal("");
  const from = start.value === "offset" ? { from: "offset", at: Number(at.value) } : start.value === "time" ? { from: "time", at: new Date(at.value).getTime() } : { from: "oldest" };
  const ready = source.value && target.value && (start.value === "oldest" || (at.value !== "" && Number.isFinite(from.at)));
  const more = { ...(where.value.trim() ? { where: where.value.trim() } : {}), ...(Number(rate.value) > 0 ? { rate: Number(rate.value) } : {}) };
  return (
    <PlanDialog request={{ title: "Replay", ...(ready ? { action: "replay", arguments: { source: source.value, target: target.value, ...from, ...more } } : {}) }} close={close} done={done}>
      <div class="form gap">
        <Field label="From topic" value={source.value} set={(value) => (source.value = value)} first={given === ""} />
        <Field label="To topic" value={target.value} set={(value) => (target.value = value)} first={given !== ""} />
        <Choice label="Begin at" value={start.value} set={(value) => (start.value = value)} options={[["oldest", "the oldest record"], ["offset", "an offset"], ["time", "a time"]]} />
        {start.value === "offset" && <Field label="Offset" type="number" value={at.value} set={(value) => (at.value = value)} />}
        {start.value === "time" && <Field label="Time" type="datetime-local" value={at.value} set={(value) => (at.value = value)} />}
        <Field label="Records a second at most" type="number" placeholder="as many as go" value={rate.value} set={(value) => (rate.value = value)} />
      </div>
      <Field label="Only records where" mono placeholder="value.status = 'FAILED'" value={where.value} set={(value) => (where.value = value)} />
      <p class="dim gap-s">What is there now is replayed, up to the ends of this moment.</p>
    </PlanDialog>
  );
}
