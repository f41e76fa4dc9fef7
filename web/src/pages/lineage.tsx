// Who writes which topics, and who reads them: drawn as lines whose width is what flows, and as a table.
import { Link } from "wouter-preact";
import { bytesText, count, plural, rate } from "../format";
import { Find, Head, Partial } from "../page";
import { Card, type Column, Empty, Pill, Rows, Shown } from "../parts";
import { useHere, useLoaded, useParam } from "../state";
import type { Sampled } from "../types";

interface Actor {
  kind: "client" | "group" | "connector" | "query";
  name: string;
}

interface Edge {
  actor: Actor;
  topic: string;
  writes: boolean;
  bytes_per_s: number | null;
  records_per_s: number | null;
  lag: number | null;
  clients: string[];
  principals: string[];
}

interface Answer extends Sampled {
  counted: boolean;
  edges: Edge[];
  left_out: number;
  workers: Record<string, string>;
}

interface Node {
  key: string;
  name: string;
  kind: string;
  href: string | null;
}

const ROW = 34;
const DRAWN = 24;

export default function LineagePage({ topic }: { topic?: string }) {
  const { cluster } = useHere();
  const [q, setQ] = useParam("q");
  const [internal, setInternal] = useParam("internal");
  const asked = { ...(topic === undefined ? (internal ? { internal: "true" } : {}) : { topic }), ...(q ? { q } : {}) };
  const loaded = useLoaded<Answer>(`/api/c/${encodeURIComponent(cluster)}/lineage?${new URLSearchParams(asked).toString()}`);
  return (
    <>
      {topic === undefined && <Head title="Lineage" sub={<span>who writes topics, and who reads them</span>} />}
      {topic === undefined && (
        <Find value={q} set={setQ} label="Clients, groups, connectors, topics or users that contain">
          <label class="check">
            <input type="checkbox" checked={internal === "true"} onChange={(event) => setInternal(event.currentTarget.checked ? "true" : "")} />
            internal topics
          </label>
        </Find>
      )}
      <Shown loaded={loaded}>
        {(data) => {
          const edges = data.edges;
          return (
            <>
              <Partial said={data.partial} />
              {!data.counted && (
                <div class="callout gap" role="status">
                  <b>These brokers do not tell what their clients move.</b> Groups are shown by what they have committed, connectors by the topics that they have used; other writers are not known. Ottla’s brokers count them.
                </div>
              )}
              {edges.length === 0 ? (
                <Card label="Lineage">
                  <Empty title={q ? `Nothing contains “${q}”.` : "Nobody has written or read yet."}>{q ? undefined : "Clients appear here within half a minute of their first record."}</Empty>
                </Card>
              ) : (
                <>
                  <Card class="gap m-hide" label="Lineage">
                    <Drawing edges={edges} workers={data.workers} here={topic} />
                  </Card>
                  <Flows edges={edges} more={data.left_out} workers={data.workers} />
                </>
              )}
            </>
          );
        }}
      </Shown>
    </>
  );
}

function href(cluster: string, actor: Actor, workers: Record<string, string>): string | null {
  if (actor.kind === "group") return `/c/${cluster}/groups/${encodeURIComponent(actor.name)}`;
  if (actor.kind === "query") return `/c/${cluster}/sql`;
  const worker = workers[actor.name];
  return actor.kind === "connector" && worker !== undefined ? `/c/${cluster}/connect/${encodeURIComponent(worker)}/${encodeURIComponent(actor.name)}` : null;
}

const of = (edge: Edge): string => `${edge.actor.kind} ${edge.actor.name}`;
const weight = (edge: Edge): number => edge.bytes_per_s ?? edge.records_per_s ?? 0;

// Names in the order in which they carry most, at most so many.
function column(edges: Edge[], key: (edge: Edge) => string, node: (edge: Edge) => Node): { nodes: Node[]; left: number } {
  const sums = new Map<string, { node: Node; sum: number }>();
  for (const edge of edges) {
    const found = sums.get(key(edge)) ?? { node: node(edge), sum: 0 };
    found.sum += weight(edge);
    sums.set(key(edge), found);
  }
  const sorted = [...sums.values()].sort((a, b) => b.sum - a.sum || a.node.name.localeCompare(b.node.name)).map((each) => each.node);
  return { nodes: sorted.slice(0, DRAWN), left: Math.max(0, sorted.length - DRAWN) };
}

// Nodes beside the middle stand where their topics are, so that few lines cross.
function beside(edges: Edge[], topics: Node[], node: (edge: Edge) => Node): { nodes: Node[]; left: number } {
  const at = new Map(topics.map((each, index) => [each.key, index]));
  const found = column(edges, of, node);
  const middle = (key: string): number => {
    const places = edges.filter((edge) => of(edge) === key && at.has(edge.topic)).map((edge) => at.get(edge.topic) ?? 0);
    return places.reduce((sum, each) => sum + each, 0) / Math.max(1, places.length);
  };
  return { ...found, nodes: found.nodes.map((each) => ({ each, place: middle(each.key) })).sort((a, b) => a.place - b.place).map(({ each }) => each) };
}

function Drawing({ edges, workers, here }: { edges: Edge[]; workers: Record<string, string>; here: string | undefined }) {
  const { cluster } = useHere();
  const topics = column(edges, (edge) => edge.topic, (edge) => ({ key: edge.topic, name: edge.topic, kind: "topic", href: `/c/${cluster}/topics/${encodeURIComponent(edge.topic)}/${edge.topic === here ? "messages" : "lineage"}` }));
  const actor = (edge: Edge): Node => ({ key: of(edge), name: edge.actor.name, kind: edge.actor.kind, href: href(cluster, edge.actor, workers) });
  const written = edges.filter((edge) => edge.writes);
  const read = edges.filter((edge) => !edge.writes);
  const left = beside(written, topics.nodes, actor);
  const right = beside(read, topics.nodes, actor);
  const height = ROW * Math.max(left.nodes.length, topics.nodes.length, right.nodes.length, 1);
  const most = Math.max(1, ...edges.map(weight));
  return (
    <div class="lineage">
      <Names title="Write" nodes={left.nodes} left={left.left} height={height} />
      <Lines edges={written} from={left.nodes} to={topics.nodes} fromKey={of} toKey={(edge) => edge.topic} height={height} most={most} />
      <Names title="Topics" nodes={topics.nodes} left={topics.left} height={height} here={here} />
      <Lines edges={read} from={topics.nodes} to={right.nodes} fromKey={(edge) => edge.topic} toKey={of} height={height} most={most} />
      <Names title="Read" nodes={right.nodes} left={right.left} height={height} />
    </div>
  );
}

const place = (index: number, many: number, height: number): number => ((index + 0.5) * height) / many;

function Names({ title, nodes, left, height, here }: { title: string; nodes: Node[]; left: number; height: number; here?: string | undefined }) {
  return (
    <div class="names">
      <h3>{title}</h3>
      <ul style={{ height: `${height}px` }}>
        {nodes.length === 0 && <li class="dim">nobody is known</li>}
        {nodes.map((each) => (
          <li key={each.key}>
            <span class={`node ${each.kind} ${each.name === here ? "here" : ""}`} title={`${each.kind} ${each.name}`}>
              {each.href === null ? <span class="clip">{each.name}</span> : <Link class="clip" href={each.href}>{each.name}</Link>}
              {each.kind !== "topic" && <small class="dim">{each.kind}</small>}
            </span>
          </li>
        ))}
      </ul>
      {left > 0 && <p class="dim">and {left} more in the table</p>}
    </div>
  );
}

function Lines(props: { edges: Edge[]; from: Node[]; to: Node[]; fromKey: (edge: Edge) => string; toKey: (edge: Edge) => string; height: number; most: number }) {
  const { height } = props;
  const at = (nodes: Node[], key: string) => nodes.findIndex((each) => each.key === key);
  return (
    <svg class="lines" viewBox={`0 0 100 ${height}`} preserveAspectRatio="none" aria-hidden="true" height={height}>
      {props.edges.map((edge) => {
        const [first, second] = [at(props.from, props.fromKey(edge)), at(props.to, props.toKey(edge))];
        if (first < 0 || second < 0) return null;
        const [y1, y2] = [place(first, props.from.length, height), place(second, props.to.length, height)];
        const moves = weight(edge);
        const width = moves > 0 ? 1.5 + 8 * Math.sqrt(moves / props.most) : 1;
        return <path key={`${of(edge)} ${edge.topic}`} class={moves > 0 ? "" : "still"} d={`M0 ${y1}C50 ${y1} 50 ${y2} 100 ${y2}`} stroke-width={width} vector-effect="non-scaling-stroke" />;
      })}
    </svg>
  );
}

function Flows({ edges, more, workers }: { edges: Edge[]; more: number; workers: Record<string, string> }) {
  const { cluster } = useHere();
  const columns: Column<Edge>[] = [
    {
      name: "Who",
      cell: (row) => {
        const link = href(cluster, row.actor, workers);
        return link === null ? <span class="clip named" title={row.actor.name}>{row.actor.name}</span> : <Link class="clip named" title={row.actor.name} href={link}>{row.actor.name}</Link>;
      },
    },
    { name: "Is a", hide: true, cell: (row) => row.actor.kind },
    { name: "Does", cell: (row) => (row.writes ? "writes" : "reads") },
    { name: "Topic", cell: (row) => <Link class="clip named" title={row.topic} href={`/c/${cluster}/topics/${encodeURIComponent(row.topic)}/lineage`}>{row.topic}</Link> },
    { name: "Bytes/s", num: true, cell: (row) => (row.bytes_per_s === null ? "–" : bytesText(row.bytes_per_s)) },
    { name: "Records/s", num: true, hide: true, cell: (row) => rate(row.records_per_s) },
    { name: "Lag", num: true, hide: true, cell: (row) => (row.lag === null ? "" : count(row.lag)) },
    {
      name: "Clients",
      hide: true,
      cell: (row) => (
        <span class="clip named" title={[...row.clients, ...row.principals].join("\n")}>
          {row.clients.length === 0 ? "–" : row.clients.length === 1 ? row.clients[0] : plural(row.clients.length, "client")}
          {row.principals.some((each) => each !== "User:ANONYMOUS") && <Pill>{row.principals.map((each) => each.replace(/^User:/, "")).join(", ")}</Pill>}
        </span>
      ),
    },
  ];
  return (
    <Card title="What flows" right={more > 0 ? `${count(edges.length)} of ${count(edges.length + more)} flows` : plural(edges.length, "flow")}>
      <Rows rows={edges} columns={columns} id={(row) => `${of(row)} ${row.topic} ${row.writes}`} label="What flows" />
    </Card>
  );
}
