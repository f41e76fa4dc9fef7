// Dead letters: which topics hold some, what is the matter with them by cause, and how they are sent back, each once.
import { useSignal } from "@preact/signals";
import { Link } from "wouter-preact";
import { count, moment, plural } from "../format";
import { Field, Head } from "../page";
import { Card, type Column, Empty, Json, Pill, Rows, Shown } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded } from "../state";
import type { RecordRow, TopicRow } from "../types";

interface Group {
  cause: string;
  count: number;
  done: number;
  first_ms: number;
  last_ms: number;
  origins: Record<string, number>;
  family: string;
  exception: string;
  message: string;
  example: RecordRow;
}

export default function LettersPage({ topic }: { topic?: string }) {
  return topic === undefined ? <Topics /> : <Letters topic={topic} />;
}

function Topics() {
  const { cluster } = useHere();
  const loaded = useLoaded<{ items: TopicRow[] }>(`/api/c/${encodeURIComponent(cluster)}/dlq`);
  return (
    <>
      <Head title="Dead letters" sub={<span>Topics whose names say that they hold records that somebody could not handle.</span>} />
      <Shown loaded={loaded}>
        {(data) => (
          <Card label="Topics with dead letters">
            {data.items.length === 0 ? (
              <Empty title="No topic is called so.">Names with dlq, dlt or dead-letter are looked for; a connector's is set by errors.deadletterqueue.topic.name.</Empty>
            ) : (
              <Rows
                rows={data.items}
                id={(row) => row.name}
                label="Topics with dead letters"
                columns={[
                  { name: "Topic", cell: (row) => <Link href={`/c/${cluster}/dlq/${encodeURIComponent(row.name)}`}>{row.name}</Link> },
                  { name: "Letters", num: true, cell: (row) => count(row.records) },
                  { name: "In/s", num: true, hide: true, cell: (row) => (row.rate === null ? "–" : row.rate.toFixed(1)) },
                ]}
              />
            )}
          </Card>
        )}
      </Shown>
    </>
  );
}

function Letters({ topic }: { topic: string }) {
  const { cluster } = useHere();
  const plan = useSignal<PlanRequest | null>(null);
  const open = useSignal("");
  const loaded = useLoaded<{ letters: number; groups: Group[]; left_out: number }>(`/api/c/${encodeURIComponent(cluster)}/dlq/${encodeURIComponent(topic)}`, false);
  const redrive = (cause?: string) => (plan.value = { title: "Send back", action: "redrive", arguments: { topic, ...(cause === undefined ? {} : { cause }) } });
  const columns: Column<Group>[] = [
    {
      name: "Why",
      cell: (row) => (
        <button class="link clip" title={row.cause} aria-expanded={open.value === row.cause} onClick={() => (open.value = open.value === row.cause ? "" : row.cause)}>
          {row.cause}
        </button>
      ),
    },
    { name: "Letters", num: true, cell: (row) => count(row.count) },
    { name: "Sent back", num: true, hide: true, cell: (row) => (row.done ? count(row.done) : "–") },
    { name: "First", hide: true, cell: (row) => <span class="dim">{moment(row.first_ms)}</span> },
    { name: "Last", hide: true, cell: (row) => <span class="dim">{moment(row.last_ms)}</span> },
    { name: "From", hide: true, cell: (row) => <span class="dim">{Object.keys(row.origins).slice(0, 3).join(", ")}</span> },
    {
      name: " ",
      num: true,
      cell: (row) =>
        row.done < row.count ? (
          <button class="link" aria-label={`Send back: ${row.cause}`} onClick={() => redrive(row.cause)}>
            Send back…
          </button>
        ) : (
          <Pill kind="good">all sent</Pill>
        ),
    },
  ];
  return (
    <>
      <Shown loaded={loaded}>
        {(data) => {
          const chosen = data.groups.find((each) => each.cause === open.value);
          return (
            <>
              <Head
                title={topic}
                sub={
                  <>
                    <span>{plural(data.letters, "letter")}</span>
                    <span>{plural(data.groups.length + data.left_out, "cause")}</span>
                    <Link href={`/c/${cluster}/topics/${encodeURIComponent(topic)}/messages`}>their records</Link>
                  </>
                }
              >
                <button class="btn go" disabled={data.groups.every((each) => each.done >= each.count)} onClick={() => redrive()}>
                  Send all back…
                </button>
              </Head>
              <Card label="Causes">{data.groups.length === 0 ? <Empty title="There are no dead letters." /> : <Rows rows={data.groups} columns={columns} id={(row) => row.cause} label="Causes" selected={open.value} />}</Card>
              {chosen && (
                <Card class="gap-top" title="The newest of them" right={<Pill kind="plain">{chosen.family}</Pill>}>
                  <div class="body stack-all">
                    <dl class="kv">
                      <dt>Exception</dt>
                      <dd class="mono wrap">{chosen.exception || "–"}</dd>
                      <dt>Message</dt>
                      <dd class="mono wrap">{chosen.message || "–"}</dd>
                      <dt>Key</dt>
                      <dd class="mono wrap">{chosen.example.key.text ?? "null"}</dd>
                    </dl>
                    {chosen.example.value.decoder === "json" ? <Json text={chosen.example.value.text ?? ""} /> : <pre tabIndex={0}>{chosen.example.value.text ?? "null"}</pre>}
                  </div>
                </Card>
              )}
            </>
          );
        }}
      </Shown>
      {plan.value && <SendBack request={plan.value} close={() => (plan.value = null)} done={loaded.again} />}
    </>
  );
}

function SendBack({ request, close, done }: { request: PlanRequest; close: () => void; done: () => void }) {
  const fix = useSignal("");
  const rate = useSignal("");
  const given = { ...request.arguments, ...(fix.value.trim() ? { fix: fix.value.trim() } : {}), ...(Number(rate.value) > 0 ? { rate: Number(rate.value) } : {}) };
  return (
    <PlanDialog request={{ ...request, arguments: given }} close={close} done={done}>
      <label class="stack gap">
        Mend them first
        <textarea class="area" rows={2} spellcheck={false} placeholder="value.country = 'NL', value.amount = value.amount * 100" value={fix.value} onInput={(event) => (fix.value = event.currentTarget.value)} />
      </label>
      <p class="dim gap-s">Assignments to parts of key, value or headers['name']; what they change in the first ten letters is shown below.</p>
      <Field label="Letters a second at most" type="number" placeholder="as many as go" value={rate.value} set={(value) => (rate.value = value)} />
    </PlanDialog>
  );
}
