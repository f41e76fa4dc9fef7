// One subject: its versions with what differs between two of them, who refers to it, and what may come next.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { call } from "../api";
import { plural } from "../format";
import { Choice, Field, Head } from "../page";
import { difference } from "../lines";
import { Card, Empty, Json, Pill, Shown, indented, needs } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded, useParam } from "../state";
import { Level } from "./schemas";

interface Version {
  version: number;
  id: number;
  type: string;
  schema: string;
  references: { name: string; subject: string; version: number }[];
}

interface Whole {
  subject: string;
  versions: Version[];
  left_out: number;
  own_level: string | null;
  level: string;
  mode: string;
  referenced_by: number[];
  operations: string[];
}

const linesOf = (version: Version | undefined): string[] =>
  version === undefined
    ? []
    : version.type === "PROTOBUF"
      ? version.schema.split("\n")
      : indented(version.schema)
          .map((each) => each.text)
          .join("")
          .split("\n");

const LINES_MAX = 1500;

export default function SchemaPage({ subject }: { subject: string }) {
  const { cluster } = useHere();
  const [, go] = useLocation();
  const [at, setAt] = useParam("version");
  const [against, setAgainst] = useParam("against");
  const plan = useSignal<PlanRequest | null>(null);
  const registering = useSignal(false);
  const level = useSignal(false);
  const loaded = useLoaded<Whole>(`/api/c/${encodeURIComponent(cluster)}/schemas/${encodeURIComponent(subject)}`, false);
  return (
    <Shown loaded={loaded}>
      {(data) => {
        const chosen = data.versions.find((each) => String(each.version) === at) ?? data.versions[0];
        const other = data.versions.find((each) => String(each.version) === against);
        const may = needs(data.operations, "ALTER", "the cluster");
        const lines = other && chosen ? difference(linesOf(other).slice(0, LINES_MAX), linesOf(chosen).slice(0, LINES_MAX)) : [];
        return (
          <>
            <Head
              title={subject}
              sub={
                <>
                  <span>{plural(data.versions.length + data.left_out, "version")}</span>
                  <span>
                    next versions: {data.level}
                    {data.own_level ? " (set here)" : ""}
                  </span>
                  <span>{data.mode}</span>
                  {data.referenced_by.length > 0 && <span>referred to by {plural(data.referenced_by.length, "schema")} (ids {data.referenced_by.slice(0, 8).join(", ")})</span>}
                </>
              }
            >
              <button class="btn" {...may} onClick={() => (level.value = true)}>
                Level…
              </button>
              <button class="btn go" {...may} onClick={() => (registering.value = true)}>
                New version…
              </button>
              <button class="btn danger" {...may} onClick={() => (plan.value = { title: "Delete subject", action: "delete-schema", arguments: { subject } })}>
                Delete…
              </button>
            </Head>
            {chosen === undefined ? (
              <Card label="Versions">
                <Empty title="It has no versions." />
              </Card>
            ) : (
              <>
                <div class="bar1">
                  <label class="field">
                    <span class="lb">version</span>
                    <select class="bare" value={String(chosen.version)} onChange={(event) => setAt(event.currentTarget.value)}>
                      {data.versions.map((each) => (
                        <option key={each.version} value={String(each.version)}>
                          {each.version}
                        </option>
                      ))}
                    </select>
                  </label>
                  <label class="field">
                    <span class="lb">compared with</span>
                    <select class="bare" value={against} onChange={(event) => setAgainst(event.currentTarget.value)}>
                      <option value="">nothing</option>
                      {data.versions
                        .filter((each) => each.version !== chosen.version)
                        .map((each) => (
                          <option key={each.version} value={String(each.version)}>
                            {each.version}
                          </option>
                        ))}
                    </select>
                  </label>
                  <Pill kind="plain">{chosen.type}</Pill>
                  <span class="dim">id {chosen.id}</span>
                  {data.left_out > 0 && <span class="dim">{plural(data.left_out, "older version")} not shown</span>}
                  <button class="btn last m-hide" {...may} onClick={() => (plan.value = { title: "Delete version", action: "delete-schema", arguments: { subject, version: chosen.version } })}>
                    Delete this version…
                  </button>
                </div>
                <Card label={`Version ${chosen.version}`}>
                  <div class="body">
                    {other ? (
                      <pre tabIndex={0} class="diff" aria-label={`What differs between version ${other.version} and ${chosen.version}`}>
                        {lines.map((each, index) => (
                          <div key={index} class={each.kind === "+" ? "new" : each.kind === "-" ? "gone" : ""}>
                            {each.kind || " "} {each.text}
                          </div>
                        ))}
                      </pre>
                    ) : chosen.type === "PROTOBUF" ? (
                      <pre tabIndex={0}>{chosen.schema}</pre>
                    ) : (
                      <Json text={chosen.schema} />
                    )}
                    {chosen.references.length > 0 && (
                      <p class="gap-top">
                        Refers to: {chosen.references.map((each) => `${each.name} (${each.subject}, version ${each.version})`).join("; ")}
                      </p>
                    )}
                  </div>
                </Card>
              </>
            )}
            {registering.value && <Register subject={subject} from={data.versions[0]} close={() => (registering.value = false)} done={loaded.again} />}
            {level.value && <Level subject={subject} now={data.own_level ?? "(as all)"} close={() => (level.value = false)} done={loaded.again} />}
            {plan.value && (
              <PlanDialog request={plan.value} close={() => (plan.value = null)} done={() => (plan.value?.title === "Delete subject" ? go(`/c/${cluster}/schemas`) : loaded.again())} />
            )}
          </>
        );
      }}
    </Shown>
  );
}

export function Register({ subject, from, close, done }: { subject?: string; from?: Version | undefined; close: () => void; done: () => void }) {
  const { cluster } = useHere();
  const name = useSignal(subject ?? "");
  const type = useSignal(from?.type ?? "AVRO");
  const text = useSignal(from ? linesOf(from).join("\n") : "");
  const said = useSignal<{ compatible: boolean; messages: string[] } | null>(null);
  const wrong = useSignal("");
  const references = from?.references ?? [];
  const asked = JSON.stringify([name.value, type.value, text.value]);
  useEffect(() => {
    said.value = null;
    wrong.value = "";
    if (!name.value.trim() || !text.value.trim()) return undefined;
    let gone = false;
    const timer = setTimeout(() => {
      call<{ compatible: boolean; messages: string[] }>(`/api/c/${encodeURIComponent(cluster)}/schemas/${encodeURIComponent(name.value.trim())}/check`, { method: "POST", body: { schema: text.value, schema_type: type.value, references } })
        .then((answer) => {
          if (!gone) said.value = answer;
        })
        .catch((cause: unknown) => {
          if (!gone) wrong.value = (cause as Error).message;
        });
    }, 400);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [asked]);
  const ready = said.value?.compatible === true;
  return (
    <PlanDialog request={{ title: subject ? "Register version" : "Register schema", ...(ready ? { action: "register-schema", arguments: { subject: name.value.trim(), schema: text.value, schema_type: type.value, references } } : {}) }} close={close} done={done}>
      <div class="form gap">
        {!subject && <Field label="Subject" placeholder="orders-value" value={name.value} set={(value) => (name.value = value)} first />}
        <Choice label="Format" value={type.value} set={(value) => (type.value = value)} options={["AVRO", "JSON", "PROTOBUF"]} />
      </div>
      <label class="stack gap">
        Schema
        <textarea class="area mono" rows={12} spellcheck={false} value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
      </label>
      <div role="status">
        {wrong.value && <p class="warn-text gap pre">{wrong.value}</p>}
        {said.value && !said.value.compatible && (
          <div class="callout bad gap">
            <b>It may not follow.</b>
            <ul>
              {said.value.messages.slice(0, 10).map((each) => (
                <li key={each} class="wrap">
                  {each}
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
    </PlanDialog>
  );
}
