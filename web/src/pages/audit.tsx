import { useSignal } from "@preact/signals";
import { moment } from "../format";
import { Card, Empty, Shown } from "../parts";
import { PlanDialog } from "../plan";
import { useHere, useLoaded } from "../state";

interface Entry {
  id: number;
  at_ms: number;
  who: string;
  action: string;
  diff: { path: string; before: unknown; after: unknown }[];
  cli: string;
  outcome: string;
  undo: boolean;
}

export default function AuditPage() {
  const { cluster } = useHere();
  const loaded = useLoaded<{ items: Entry[] }>(`/api/c/${encodeURIComponent(cluster)}/audit`);
  const undo = useSignal<number | null>(null);
  return (
    <>
      <div class="head">
        <div>
          <h1>Changes</h1>
          <p class="sub">
            <span>What was changed by the console, the newest 500; its log and the topic __ottla_console_audit have all.</span>
          </p>
        </div>
      </div>
      <Shown loaded={loaded}>
        {(data) => (
          <Card label="Changes">
            {data.items.length === 0 ? (
              <Empty title="Nothing was changed yet." />
            ) : (
              <table>
                <thead>
                  <tr>
                    <th>When</th>
                    <th class="m-hide">Who</th>
                    <th>What</th>
                    <th class="m-hide">Changes</th>
                    <th class="m-hide">Outcome</th>
                    <th />
                  </tr>
                </thead>
                <tbody>
                  {data.items.map((each) => (
                    <tr key={each.id}>
                      <td class="dim">{moment(each.at_ms)}</td>
                      <td class="m-hide">{each.who}</td>
                      <td>{each.action}</td>
                      <td class="m-hide clip mono" title={each.cli}>
                        {each.diff.slice(0, 2).map((one) => `${one.path}: ${String(one.before ?? "–")} → ${String(one.after ?? "–")}`).join("; ")}
                        {each.diff.length > 2 ? ` and ${each.diff.length - 2} more` : ""}
                      </td>
                      <td class="m-hide wrap">{each.outcome}</td>
                      <td class="num">
                        {each.undo && (
                          <button class="btn" onClick={() => (undo.value = each.id)}>
                            Undo…
                          </button>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
          </Card>
        )}
      </Shown>
      {undo.value !== null && <PlanDialog request={{ title: "Undo", undo: undo.value }} close={() => (undo.value = null)} done={loaded.again} />}
    </>
  );
}
