import { useSignal } from "@preact/signals";
import { type ComponentType, type JSX, render } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { Link, Redirect, Route, Switch, useLocation } from "wouter-preact";
import { Live, begin, enter, isNewer, logOut, session } from "./api";
import { Door } from "./door";
import { Mark } from "./mark";
import { ago } from "./ago";
import "./ottla.css";
import "./console.css";
import { Icon } from "./parts";
import Overview from "./pages/overview";
import { Palette } from "./palette";
import { SECTIONS } from "./sections";
import { HereContext, sampled, tick } from "./state";

const ON_A_PHONE = ["Overview", "Topics", "Groups", "Brokers"];

type PageModule<Props> = { default: ComponentType<Props> };

// A page is loaded when it is first opened; the first one of a visit is then all that a visitor waits for. The overview is
// small, and where most visits begin: it comes with what all pages share.
function lazy<Props extends object>(load: () => Promise<PageModule<Props>>): (props: Props) => JSX.Element {
  let found: ComponentType<Props> | null = null;
  return function Lazy(props: Props) {
    const ready = useSignal(found !== null);
    const failed = useSignal(false);
    useEffect(() => {
      if (!found)
        load()
          .then((module) => {
            found = module.default;
            ready.value = true;
          })
          .catch(() => (failed.value = true));
    }, []);
    if (failed.value) return <div class="callout bad">This page could not be loaded. Reload it: the console may have been updated.</div>;
    if (!ready.value || !found) return <div class="loading" role="status" aria-busy="true" aria-label="Loading" />;
    const Found = found;
    return <Found {...props} />;
  };
}

const Topics = lazy(() => import("./pages/topics"));
const Topic = lazy<{ name: string; tab: string }>(() => import("./pages/topic"));
const Groups = lazy(() => import("./pages/groups"));
const Group = lazy<{ name: string }>(() => import("./pages/group"));
const Brokers = lazy(() => import("./pages/brokers"));
const Audit = lazy(() => import("./pages/audit"));
const Access = lazy<{ tab: string }>(() => import("./pages/access"));
const Transactions = lazy(() => import("./pages/transactions"));
const Quorum = lazy(() => import("./pages/quorum"));
const Reassign = lazy(() => import("./pages/reassign"));
const Connect = lazy(() => import("./pages/connect"));
const ConnectorPage = lazy<{ workers: string; name: string }>(() => import("./pages/connector"));
const Streams = lazy(() => import("./pages/streams"));
const ApplicationPage = lazy<{ service: string; name: string }>(() => import("./pages/application"));
const Sql = lazy(() => import("./pages/sql"));
const Letters = lazy<{ topic?: string }>(() => import("./pages/letters"));
const Lineage = lazy<{ topic?: string }>(() => import("./pages/lineage"));
const Alerts = lazy(() => import("./pages/alerts"));
const Replays = lazy(() => import("./pages/replays"));
const Cost = lazy<{ topic?: string }>(() => import("./pages/cost"));
const Schemas = lazy(() => import("./pages/schemas"));
const Schema = lazy<{ subject: string }>(() => import("./pages/schema"));

function App() {
  if (!session.value) return <Door />;
  const first = session.value.clusters[0] ?? "cluster";
  return (
    <Switch>
      <Route path="/c/:cluster" nest={false}>
        {(names) => <Inside cluster={names.cluster} />}
      </Route>
      <Route path="/c/:cluster/*">{(names) => <Inside cluster={names.cluster} />}</Route>
      <Route>
        <Redirect to={`/c/${first}`} replace />
      </Route>
    </Switch>
  );
}

// A cluster is shown to who has logged in to it, where users do.
function Inside({ cluster }: { cluster: string }) {
  const known = session.value;
  if (known && known.mechanisms.length > 0 && known.clusters.includes(cluster) && !known.users[cluster]) return <Door key={cluster} cluster={cluster} />;
  return <Shell key={cluster} cluster={cluster} />;
}

function Shell({ cluster }: { cluster: string }) {
  const live = useMemo(() => new Live(cluster), [cluster]);
  const [path, go] = useLocation();
  const palette = useSignal(false);
  const base = `/c/${cluster}`;
  useEffect(() => {
    const end = live.listen("sample", {}, (frame) => {
      sampled.value = { at: frame["at_ms"] as number | null, period: Number(frame["period_s"]), error: frame["error"] as string | null };
      const is_shown = frame.seq === 0 && !isNewer(frame["at_ms"]); // the first frame may say what was loaded just now
      if (!document.hidden && !is_shown) tick.value += 1;
    });
    return () => {
      end();
      live.close();
    };
  }, [live]);
  useEffect(() => {
    let before = "";
    const keys = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const typing = target.matches("input, textarea, select") || target.closest("dialog") !== null;
      if ((event.ctrlKey || event.metaKey) && event.key === "k") {
        event.preventDefault();
        palette.value = true;
        return;
      }
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const places: Record<string, string> = { o: base, t: `${base}/topics`, g: `${base}/groups`, b: `${base}/brokers`, c: `${base}/connect`, s: `${base}/schemas`, d: `${base}/dlq`, q: `${base}/sql`, a: `${base}/access` };
      if (before === "g" && places[event.key]) {
        go(places[event.key] as string);
        before = "";
        return;
      }
      before = event.key;
      if (event.key === "/") {
        event.preventDefault();
        palette.value = true;
      } else if (event.key === "f") {
        event.preventDefault();
        document.querySelector<HTMLInputElement>("[data-focus=filter]")?.focus();
      }
    };
    document.addEventListener("keydown", keys);
    return () => document.removeEventListener("keydown", keys);
  }, [base, go]);
  const here = path.slice(base.length);
  const names = here.split("/").filter(Boolean).map(decodeURIComponent);
  const named = names[names.length > 2 && (names[0] === "connect" || names[0] === "streams") ? 2 : 1];
  const title = named ?? SECTIONS.flatMap((each) => each.pages).find((each) => each.path === here)?.name ?? "Overview";
  useEffect(() => {
    document.title = `${title} · Ottla`;
  }, [title]);
  const stale = sampled.value.error !== null || !live.connected.value;
  return (
    <HereContext.Provider value={{ cluster, live }}>
      <div class="app">
        <nav class="side" aria-label="Main">
          <Link class="brand" href={base}>
            <Mark />
            ottla
          </Link>
          {SECTIONS.map((section) => (
            <div key={section.group}>
              {section.group && <div class="group">{section.group}</div>}
              <ul>
                {section.pages.map((each) => (
                  <li key={each.name}>
                    <Link href={base + each.path} title={each.name} aria-current={isHere(here, each.path) ? "page" : undefined}>
                      <Icon name={each.icon} />
                      {each.name}
                    </Link>
                  </li>
                ))}
              </ul>
            </div>
          ))}
          <div class="me">
            {session.value?.users[cluster] ? (
              <>
                <span class="clip" title={keptText(session.value.users[cluster]?.kept)}>
                  {session.value.users[cluster]?.user}
                </span>
                <button class="btn last" onClick={() => void logOut()}>
                  Log out
                </button>
              </>
            ) : (
              <>
                <span class="dim">Ottla {session.value?.version}</span>
                <span class="pill plain last">{session.value?.read_only ? "read-only" : "can write"}</span>
              </>
            )}
          </div>
        </nav>
        <header class="top">
          <label class="cluster">
            <span class={`sev ${stale ? "bad" : "good"} flat`} />
            <span class="sr">Cluster</span>
            <select class="bare" value={cluster} onChange={(event) => go(`/c/${event.currentTarget.value}`)}>
              {(session.value?.clusters ?? [cluster]).map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
          <nav class="crumb" aria-label="Path">
            {named && names[0] ? (
              <>
                <Link class="opt" href={`${base}/${names[0]}`}>
                  {names[0][0]?.toUpperCase()}
                  {names[0].slice(1)}
                </Link>
                <span class="opt" aria-hidden="true">
                  /
                </span>
                <b class="opt clip">{named}</b>
              </>
            ) : (
              <b class="opt">{title}</b>
            )}
          </nav>
          <button class="find" aria-label="Find or do" onClick={() => (palette.value = true)}>
            <Icon name="find" />
            <span>Find or do</span>
            <kbd>/</kbd>
            <kbd>Ctrl K</kbd>
          </button>
        </header>
        <main class={`main ${stale && sampled.value.at !== null ? "stale" : ""}`} id="main" tabIndex={0}>
          {stale && sampled.value.error && (
            <div class="callout bad gap" role="status">
              <b>The cluster does not answer.</b> {sampled.value.error} {sampled.value.at === null ? "" : `What is shown is from ${ago(sampled.value.at)}.`}
            </div>
          )}
          {session.value?.anonymous && <div class="callout gap">Whoever reaches this address can do what this console may: it asks nobody who they are.</div>}
          <Switch>
            <Route path="/c/:cluster" component={Overview} />
            <Route path="/c/:cluster/topics" component={Topics} />
            <Route path="/c/:cluster/topics/:topic">{(each) => <Redirect to={`${base}/topics/${each.topic}/messages`} replace />}</Route>
            <Route path="/c/:cluster/topics/:topic/:tab">{(each) => <Topic name={decodeURIComponent(each.topic)} tab={each.tab} />}</Route>
            <Route path="/c/:cluster/streams" component={Streams} />
            <Route path="/c/:cluster/streams/:service/:name">{(each) => <ApplicationPage service={decodeURIComponent(each.service)} name={decodeURIComponent(each.name)} />}</Route>
            <Route path="/c/:cluster/sql" component={Sql} />
            <Route path="/c/:cluster/groups" component={Groups} />
            <Route path="/c/:cluster/groups/:group">{(each) => <Group name={decodeURIComponent(each.group)} />}</Route>
            <Route path="/c/:cluster/brokers" component={Brokers} />
            <Route path="/c/:cluster/audit" component={Audit} />
            <Route path="/c/:cluster/access">{() => <Access tab="entries" />}</Route>
            <Route path="/c/:cluster/access/:tab">{(each) => <Access tab={each.tab} />}</Route>
            <Route path="/c/:cluster/transactions" component={Transactions} />
            <Route path="/c/:cluster/quorum" component={Quorum} />
            <Route path="/c/:cluster/reassign" component={Reassign} />
            <Route path="/c/:cluster/connect" component={Connect} />
            <Route path="/c/:cluster/connect/:workers/:connector">{(each) => <ConnectorPage workers={decodeURIComponent(each.workers)} name={decodeURIComponent(each.connector)} />}</Route>
            <Route path="/c/:cluster/dlq">{() => <Letters />}</Route>
            <Route path="/c/:cluster/dlq/:topic">{(each) => <Letters topic={decodeURIComponent(each.topic)} />}</Route>
            <Route path="/c/:cluster/lineage">{() => <Lineage />}</Route>
            <Route path="/c/:cluster/alerts" component={Alerts} />
            <Route path="/c/:cluster/replays" component={Replays} />
            <Route path="/c/:cluster/cost">{() => <Cost />}</Route>
            <Route path="/c/:cluster/schemas" component={Schemas} />
            <Route path="/c/:cluster/schemas/:subject">{(each) => <Schema subject={decodeURIComponent(each.subject)} />}</Route>
            <Route>
              <div class="callout">
                <b>There is no such page.</b> <Link href={base}>Overview</Link>
              </div>
            </Route>
          </Switch>
        </main>
        <nav class="tabs-m" aria-label="Sections">
          {SECTIONS.flatMap((each) => each.pages)
            .filter((each) => ON_A_PHONE.includes(each.name))
            .map((each) => (
              <Link key={each.name} href={base + each.path} aria-current={isHere(here, each.path) ? "page" : undefined}>
                <Icon name={each.icon} />
                {each.name}
              </Link>
            ))}
          <button class="tab-more" onClick={() => (palette.value = true)}>
            <Icon name="more" />
            More
          </button>
        </nav>
      </div>
      {palette.value && <Palette close={() => (palette.value = false)} />}
    </HereContext.Provider>
  );
}

const keptText = (kept: string | undefined): string =>
  kept === "token" ? "Logged in by a delegation token; the password is forgotten." : kept === "secret" ? "The salted password is kept until you log out." : kept === "access token" ? "The access token is kept until it ends or you log out." : "The password is kept in the console's memory until you log out: the cluster has no delegation tokens.";

const isHere = (here: string, path: string): boolean => (path === "" ? here === "" || here === "/" : here === path || here.startsWith(`${path}/`));

const root = document.getElementById("app");
// What stands in the page stays until it is known who has come in.
function show(): void {
  root?.replaceChildren();
  if (root) render(<App />, root);
}
if (begin()) show();
else void enter().then(show);
