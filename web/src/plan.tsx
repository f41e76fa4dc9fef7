// Every change: first what would change, then the button that does exactly that.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { ApiError, call, session } from "./api";
import { count } from "./format";
import { Cli, Dialog } from "./parts";
import { useHere } from "./state";

interface Plan {
  id: string;
  action: string;
  hash: string;
  diff: { path: string; before: unknown; after: unknown }[];
  left_out: number;
  effects: string[];
  warnings: string[];
  cli: string;
  irreversible: boolean;
  typed: string | null;
  undo: boolean;
}

const shown = (value: unknown): string => (value === null || value === undefined ? "–" : typeof value === "number" ? count(value) : String(value));

export interface PlanRequest {
  title: string;
  action?: string;
  arguments?: object;
  undo?: number;
}

export function PlanDialog({ request, close, done, children }: { request: PlanRequest; close: () => void; done?: () => void; children?: ComponentChildren }) {
  const { cluster } = useHere();
  const plan = useSignal<Plan | null>(null);
  const error = useSignal("");
  const typed = useSignal("");
  const running = useSignal(false);
  const finished = useSignal("");
  const base = `/api/c/${encodeURIComponent(cluster)}`;
  const asked = JSON.stringify([request.action, request.arguments, request.undo]);
  useEffect(() => {
    let gone = false;
    error.value = "";
    if (request.action === undefined && request.undo === undefined) {
      plan.value = null;
      return undefined;
    }
    const timer = setTimeout(() => {
      const made =
        request.undo !== undefined
          ? call<Plan>(`${base}/audit/${request.undo}/undo`, { method: "POST", body: {} })
          : call<Plan>(`${base}/plans`, { method: "POST", body: { action: request.action, arguments: request.arguments } });
      made
        .then((answer) => {
          if (!gone) plan.value = answer;
        })
        .catch((cause: unknown) => {
          if (gone) return;
          plan.value = null;
          error.value = (cause as Error).message;
        });
    }, 200);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [asked, base]);
  const run = async () => {
    const current = plan.value;
    if (!current) return;
    running.value = true;
    error.value = "";
    try {
      const outcome = await call<{ outcome: string }>(`${base}/plans/${current.id}/run`, { method: "POST", body: { hash: current.hash, typed: typed.value } });
      finished.value = outcome.outcome === "done" ? "Done." : outcome.outcome;
      done?.();
      close();
    } catch (cause) {
      if (cause instanceof ApiError && cause.status === 409 && cause.body["plan"]) {
        plan.value = cause.body["plan"] as Plan;
      }
      error.value = cause instanceof ApiError && typeof cause.body["outcome"] === "string" ? cause.body["outcome"] : (cause as Error).message;
    } finally {
      running.value = false;
    }
  };
  const current = plan.value;
  const readOnly = session.value?.read_only ?? false;
  const ready = current !== null && current.diff.length > 0 && !running.value && !readOnly && (current.typed === null || typed.value === current.typed);
  return (
    <Dialog
      title={request.title}
      close={close}
      wide
      footer={
        <>
          {readOnly && <span class="dim">This console is read-only.</span>}
          <button class="btn" onClick={close}>
            Cancel
          </button>
          <button class={`btn ${current?.irreversible ? "danger" : "go"}`} disabled={!ready} onClick={() => void run()}>
            {running.value ? "Working…" : request.title.replace(/…$/, "")}
          </button>
        </>
      }
    >
      {children}
      {error.value && (
        <div class="callout bad gap" role="alert">
          {error.value}
        </div>
      )}
      {current && (
        <>
          <table class="plan-diff" aria-label="What changes">
            <thead>
              <tr>
                <th>What</th>
                <th>Before</th>
                <th>After</th>
              </tr>
            </thead>
            <tbody>
              {current.diff.slice(0, 100).map((each) => (
                <tr key={each.path}>
                  <td class="wrap">{each.path}</td>
                  <td class="mono wrap">{shown(each.before)}</td>
                  <td class="mono wrap">{shown(each.after)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {current.diff.length + current.left_out > 100 && <p class="dim gap">and {count(current.diff.length + current.left_out - 100)} more</p>}
          {current.effects.map((each) => (
            <p key={each} class="gap-s">
              {each}
            </p>
          ))}
          {current.warnings.map((each) => (
            <p key={each} class="gap-s warn-text">
              {each}
            </p>
          ))}
          {current.undo && <p class="gap-s dim">It can be taken back under Changes.</p>}
          {current.typed !== null && (
            <label class="stack gap">
              This cannot be taken back. Type {current.typed} to go on.
              <input class="field" autocomplete="off" value={typed.value} onInput={(event) => (typed.value = event.currentTarget.value)} />
            </label>
          )}
          <p class="dim gap label">The same on the command line</p>
          <Cli text={current.cli} />
        </>
      )}
      {!current && !error.value && (request.action !== undefined || request.undo !== undefined) && <div class="loading" role="status" aria-busy="true" aria-label="Planning" />}
    </Dialog>
  );
}
