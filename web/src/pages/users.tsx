// Users whose passwords the cluster keeps (SCRAM), and delegation tokens.
import { useSignal } from "@preact/signals";
import { moment } from "../format";
import { Choice, Field, Partial } from "../page";
import { Card, Empty, Rows, Shown, needs } from "../parts";
import { PlanDialog, type PlanRequest } from "../plan";
import { useHere, useLoaded, useParam } from "../state";

interface User {
  user: string;
  mechanisms: Record<string, number>;
}

interface Token {
  id: string;
  owner: string;
  requester: string;
  issue_ms: number;
  expiry_ms: number;
  max_ms: number;
}

export function Users() {
  const { cluster } = useHere();
  const [creating, setCreating] = useParam("new");
  const plan = useSignal<PlanRequest | null>(null);
  const loaded = useLoaded<{ items: User[]; tokens: Token[]; tokens_known: boolean; partial: string[]; operations: string[] }>(`/api/c/${encodeURIComponent(cluster)}/users`, false);
  return (
    <>
      <Shown loaded={loaded}>
        {(data) => (
          <>
            <Partial said={data.partial} />
            <Card
              title="Users with a password"
              right={
                <button class="btn go" {...needs(data.operations, "ALTER", "the cluster")} onClick={() => setCreating("1")}>
                  Set a password…
                </button>
              }
            >
              {data.items.length === 0 ? (
                <Empty title="The cluster keeps no passwords.">SCRAM's are kept in its metadata; those of PLAIN stand in the brokers' own settings.</Empty>
              ) : (
                <Rows
                  rows={data.items}
                  id={(row) => row.user}
                  label="Users"
                  columns={[
                    { name: "User", cell: (row) => row.user },
                    {
                      name: "Mechanisms",
                      cell: (row) =>
                        Object.entries(row.mechanisms).map(([name, iterations]) => (
                          <span key={name} class="with-bar">
                            {name} <span class="dim">{iterations} iterations</span>
                            <button class="link" aria-label={`Delete the password of ${row.user} by ${name}`} onClick={() => (plan.value = { title: "Delete password", action: "delete-password", arguments: { user: row.user, mechanism: name } })}>
                              Delete…
                            </button>
                          </span>
                        )),
                    },
                  ]}
                />
              )}
            </Card>
            <Card class="gap-top" title="Delegation tokens">
              {data.tokens.length === 0 ? (
                <Empty title={data.tokens_known ? "There are no tokens." : "Tokens are not told here."}>{data.tokens_known ? "" : "They are off (delegation.token.secret.key), or shown to those alone who have logged in by a password."}</Empty>
              ) : (
                <Rows
                  rows={data.tokens}
                  id={(row) => row.id}
                  label="Delegation tokens"
                  columns={[
                    { name: "Id", cell: (row) => <span class="mono">{row.id}</span> },
                    { name: "Owner", cell: (row) => row.owner },
                    { name: "Asked for by", hide: true, cell: (row) => row.requester },
                    { name: "Ends", cell: (row) => moment(row.expiry_ms) },
                    { name: "At the latest", hide: true, cell: (row) => moment(row.max_ms) },
                  ]}
                />
              )}
            </Card>
          </>
        )}
      </Shown>
      {creating === "1" && <SetPassword close={() => setCreating("")} done={loaded.again} />}
      {plan.value && <PlanDialog request={plan.value} close={() => (plan.value = null)} done={loaded.again} />}
    </>
  );
}

function SetPassword({ close, done }: { close: () => void; done: () => void }) {
  const user = useSignal("");
  const mechanism = useSignal("SCRAM-SHA-512");
  const password = useSignal("");
  const ready = user.value.trim() !== "" && password.value.length > 0;
  return (
    <PlanDialog request={{ title: "Set password", ...(ready ? { action: "set-password", arguments: { user: user.value.trim(), mechanism: mechanism.value, password: password.value } } : {}) }} close={close} done={done}>
      <div class="form gap">
        <Field label="User" value={user.value} set={(value) => (user.value = value)} first />
        <Choice label="Mechanism" value={mechanism.value} set={(value) => (mechanism.value = value)} options={["SCRAM-SHA-512", "SCRAM-SHA-256"]} />
        <Field label="New password" type="password" value={password.value} set={(value) => (password.value = value)} />
      </div>
    </PlanDialog>
  );
}
