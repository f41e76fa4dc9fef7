// The schema registry's subjects.
import { useSignal } from "@preact/signals";
import { Link } from "wouter-preact";
import { plural } from "../format";
import { Choice, Find, Head } from "../page";
import { Card, type Column, Empty, Pill, Rows, Shown, needs } from "../parts";
import { PlanDialog } from "../plan";
import { useHere, useLoaded, useParam } from "../state";
import { Register } from "./schema";

interface Subject {
  subject: string;
  version: number;
  id: number;
  type: string;
  references: number;
}

export const LEVELS = ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"];
export const MODES = ["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"];

export default function SchemasPage() {
  const { cluster } = useHere();
  const [q, setQ] = useParam("q");
  const [sort, setSort] = useParam("sort", "subject");
  const [creating, setCreating] = useParam("new");
  const level = useSignal(false);
  const loaded = useLoaded<{ items: Subject[]; total: number; level: string; mode: string; url: string; operations: string[] }>(`/api/c/${encodeURIComponent(cluster)}/schemas?q=${encodeURIComponent(q)}&sort=${sort}&limit=500`, false);
  const columns: Column<Subject>[] = [
    { name: "Subject", key: "subject", cell: (row) => <Link href={`/c/${cluster}/schemas/${encodeURIComponent(row.subject)}`}>{row.subject}</Link> },
    { name: "Format", key: "type", cell: (row) => <Pill kind="plain">{row.type}</Pill> },
    { name: "Version", key: "version", num: true, cell: (row) => row.version },
    { name: "Id", key: "id", num: true, hide: true, cell: (row) => row.id },
    { name: "Refers to", key: "references", num: true, hide: true, cell: (row) => row.references || "–" },
  ];
  const may = needs(loaded.data?.operations, "ALTER", "the cluster");
  return (
    <>
      <Head
        title="Schemas"
        sub={
          loaded.data ? (
            <>
              <span>{plural(loaded.data.total, "subject")}</span>
              <span>next versions: {loaded.data.level}</span>
              <span>{loaded.data.mode}</span>
              <span class="dim">{loaded.data.url}</span>
            </>
          ) : undefined
        }
      >
        {loaded.data && (
          <>
            <button class="btn" {...may} onClick={() => (level.value = true)}>
              Level…
            </button>
            <button class="btn go" {...may} onClick={() => setCreating("1")}>
              Register…
            </button>
          </>
        )}
      </Head>
      {loaded.status === 404 ? (
        <Card label="Schemas">
          <Empty title="No schema registry is named.">
            Start the console with <code>--schema-registry URL</code>; <code>ottla registry start</code> runs one.
          </Empty>
        </Card>
      ) : (
        <>
          <Find value={q} set={setQ} label="Subjects that contain" />
          <Shown loaded={loaded}>
            {(data) => (
              <Card label="Subjects">
                {data.items.length === 0 ? (
                  <Empty title={q ? `No subject contains “${q}”.` : "There are no subjects yet."}>{q ? "" : "A serializer that may register makes one, or “Register…”."}</Empty>
                ) : (
                  <Rows rows={data.items} columns={columns} id={(row) => row.subject} sort={sort} onSort={setSort} label="Subjects" />
                )}
              </Card>
            )}
          </Shown>
        </>
      )}
      {creating === "1" && <Register close={() => setCreating("")} done={loaded.again} />}
      {level.value && <Level subject="" now={loaded.data?.level ?? ""} close={() => (level.value = false)} done={loaded.again} />}
    </>
  );
}

export function Level({ subject, now, close, done }: { subject: string; now: string; close: () => void; done: () => void }) {
  const wanted = useSignal(now);
  return (
    <PlanDialog request={{ title: "Set level", ...(wanted.value ? { action: "registry-level", arguments: { subject, compatibility: wanted.value === "(as all)" ? null : wanted.value } } : {}) }} close={close} done={done}>
      <div class="form gap">
        <Choice label="What the next version has to be to those before" value={wanted.value} set={(value) => (wanted.value = value)} options={[...(subject ? ["(as all)"] : []), ...LEVELS]} />
      </div>
    </PlanDialog>
  );
}
