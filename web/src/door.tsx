// Before anything is shown: the console's link, or a user and a password of the cluster.
import { useSignal } from "@preact/signals";
import { issuerPage, logIn, logInByCertificate, loginError, session, way } from "./api";
import { Mark } from "./mark";

export function Door({ cluster }: { cluster?: string }) {
  return (
    <main class="door">
      <div class="brand">
        <Mark />
        ottla
      </div>
      {way.value.mechanisms.length > 0 || (session.value?.mechanisms.length ?? 0) > 0 ? <Form cluster={cluster} /> : <TheLink />}
    </main>
  );
}

function TheLink() {
  return (
    <>
      <h1>Open the console's link</h1>
      <p>
        It was printed when the console started, and after each use: <code>console http://…/#key=…</code>. A link opens once.
      </p>
      {loginError.value && <p class="dim">{loginError.value}</p>}
    </>
  );
}

function Form({ cluster }: { cluster: string | undefined }) {
  const clusters = way.value.clusters ?? session.value?.clusters ?? [];
  const all = way.value.mechanisms.length ? way.value.mechanisms : (session.value?.mechanisms ?? []);
  const mechanisms = all.filter((each) => each !== "OAUTHBEARER" && each !== "CERTIFICATE");
  const at = useSignal(cluster ?? clusters[0] ?? "");
  const mechanism = useSignal(mechanisms[0] ?? "");
  const user = useSignal("");
  const password = useSignal("");
  const error = useSignal(way.value.failed ?? "");
  const working = useSignal(false);
  const enter = async (by: () => Promise<void>) => {
    working.value = true;
    error.value = "";
    try {
      await by();
    } catch (cause) {
      error.value = (cause as Error).message;
    } finally {
      working.value = false;
    }
  };
  return (
    <form
      class="stack-all login"
      onSubmit={(event) => {
        event.preventDefault();
        const given = password.value;
        password.value = "";
        void enter(() => logIn(at.value, mechanism.value, user.value, given));
      }}
    >
      <h1>Log in</h1>
      <p>With a user of the cluster: you see and change what that user may.</p>
      {error.value && (
        <div class="callout bad" role="alert">
          {error.value}
        </div>
      )}
      {clusters.length > 1 && (
        <label class="stack">
          Cluster
          <select class="field" value={at.value} disabled={cluster !== undefined} onChange={(event) => (at.value = event.currentTarget.value)}>
            {clusters.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      )}
      {mechanisms.length > 0 && (
        <>
        <label class="stack">
          User
          <input class="field" autofocus autocomplete="username" value={user.value} onInput={(event) => (user.value = event.currentTarget.value)} />
        </label>
        <label class="stack">
          Password
          <input class="field" type="password" autocomplete="current-password" value={password.value} onInput={(event) => (password.value = event.currentTarget.value)} />
        </label>
        {mechanisms.length > 1 && (
          <label class="stack">
            Mechanism
            <select class="field" value={mechanism.value} onChange={(event) => (mechanism.value = event.currentTarget.value)}>
              {mechanisms.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
        )}
        <button class="btn go" disabled={working.value || !user.value || !password.value}>
          {working.value ? "Logging in…" : "Log in"}
        </button>
        </>
      )}
      {all.includes("OAUTHBEARER") && (
        <a class="btn" href={issuerPage(at.value)}>
          Log in at {hostOf(way.value.issuer)}
        </a>
      )}
      {all.includes("CERTIFICATE") && (
        <button type="button" class="btn" disabled={working.value} onClick={() => void enter(() => logInByCertificate(at.value))}>
          Log in by certificate
        </button>
      )}
    </form>
  );
}

function hostOf(url: string | undefined): string {
  try {
    return new URL(url ?? "").host;
  } catch {
    return "the issuer";
  }
}
