// What topics and their users cost in a month: bytes that lie, and bytes that move.
import { Link } from "wouter-preact";
import { bytesText, plural, trim } from "../format";
import { Find, Head, Partial } from "../page";
import { Bar, Card, type Column, Empty, Rows, Shown } from "../parts";
import { useHere, useLoaded, useParam } from "../state";
import type { Sampled } from "../types";

interface TopicCost {
  topic: string;
  copies: number;
  stored: number | null;
  written_per_s: number | null;
  read_per_s: number | null;
  cost_stored: number | null;
  cost_written: number | null;
  cost_read: number | null;
  cost: number | null;
}

interface ClientCost {
  name: string;
  is_principal: boolean;
  written_per_s: number;
  read_per_s: number;
  stored: number;
  cost: number;
}

interface Answer extends Sampled {
  counted: boolean;
  prices: { stored: number; written: number; read: number; currency: string; are_set: boolean };
  topics: TopicCost[];
  left_out: number;
  total: number;
  clients: ClientCost[] | null;
}

const perSecond = (value: number | null): string => (value === null ? "–" : `${bytesText(value)}/s`);

export default function CostPage({ topic }: { topic?: string }) {
  const { cluster } = useHere();
  const [q, setQ] = useParam("q");
  const query = topic === undefined ? "" : `?topic=${encodeURIComponent(topic)}`;
  const loaded = useLoaded<Answer>(`/api/c/${encodeURIComponent(cluster)}/cost${query}`);
  return (
    <>
      {topic === undefined && <Head title="Cost" sub={<span>what topics and their users cost in a month, if it goes on as now</span>} />}
      {topic === undefined && <Find value={q} set={setQ} label="Topics and users that contain" />}
      <Shown loaded={loaded}>
        {(data) => {
          const named = (name: string) => name.toLowerCase().includes(q.toLowerCase());
          const topics = data.topics.filter((each) => named(each.topic));
          const clients = (data.clients ?? []).filter((each) => named(each.name));
          return (
            <>
              <Partial said={data.partial} />
              {!data.prices.are_set && (
                <div class="callout gap">
                  <b>No prices are set,</b> so that bytes are all that is shown. Start the console with <code>ottla.console.cost.stored.gb.month</code>, <code>ottla.console.cost.written.gb</code>, <code>ottla.console.cost.read.gb</code> and <code>ottla.console.cost.currency</code>.
                </div>
              )}
              {!data.counted && (
                <div class="callout gap" role="status">
                  <b>These brokers do not tell what their clients move.</b> What lies on disks is counted, what is written and read is not. Ottla’s brokers count it.
                </div>
              )}
              <Topics rows={topics} data={data} q={q} />
              {data.clients !== null && <Clients rows={clients} prices={data.prices} />}
            </>
          );
        }}
      </Shown>
    </>
  );
}

function money(value: number | null, prices: Answer["prices"]): string {
  return value === null ? "–" : `${value > 0 && value < 0.01 ? "< 0.01" : value < 100 ? value.toFixed(2) : trim(value)} ${prices.currency}`.trim();
}

function Topics({ rows, data, q }: { rows: TopicCost[]; data: Answer; q: string }) {
  const { prices } = data;
  const { cluster } = useHere();
  const stored = Math.max(1, ...rows.map((each) => each.stored ?? 0));
  const columns: Column<TopicCost>[] = [
    { name: "Topic", cell: (row) => <Link href={`/c/${cluster}/topics/${encodeURIComponent(row.topic)}/cost`}>{row.topic}</Link> },
    {
      name: "Lies on disks",
      cell: (row) =>
        row.stored === null ? (
          "–"
        ) : (
          <div class="with-bar">
            <Bar share={row.stored / stored} />
            {bytesText(row.stored)}
          </div>
        ),
    },
    { name: "Copies", num: true, hide: true, cell: (row) => row.copies },
    { name: "Written", num: true, hide: true, cell: (row) => perSecond(row.written_per_s) },
    { name: "Read", num: true, hide: true, cell: (row) => perSecond(row.read_per_s) },
    ...(prices.are_set
      ? [
          { name: "Storage", num: true, hide: true, cell: (row: TopicCost) => money(row.cost_stored, prices) },
          { name: "Writing", num: true, hide: true, cell: (row: TopicCost) => money(row.cost_written, prices) },
          { name: "Reading", num: true, hide: true, cell: (row: TopicCost) => money(row.cost_read, prices) },
          { name: "A month", num: true, cell: (row: TopicCost) => <b>{money(row.cost, prices)}</b> },
        ]
      : []),
  ];
  return (
    <Card class="gap" title="Topics" right={`${prices.are_set ? `${money(data.total, prices)} a month` : plural(rows.length + data.left_out, "topic")}${data.left_out ? `; ${plural(rows.length, "topic")} shown` : ""}`}>
      {rows.length === 0 ? <Empty title={q ? `No topic contains “${q}”.` : "There are no topics."} /> : <Rows rows={rows} columns={columns} id={(row) => row.topic} label="Topics" />}
    </Card>
  );
}

function Clients({ rows, prices }: { rows: ClientCost[]; prices: Answer["prices"] }) {
  const columns: Column<ClientCost>[] = [
    { name: rows[0]?.is_principal ? "User" : "Client", cell: (row) => <span class="clip" title={row.name}>{row.name.replace(/^User:/, "") || "(no client id)"}</span> },
    { name: "Writes", num: true, cell: (row) => perSecond(row.written_per_s) },
    { name: "Reads", num: true, cell: (row) => perSecond(row.read_per_s) },
    { name: "Share of what lies", num: true, hide: true, cell: (row) => bytesText(row.stored) },
    ...(prices.are_set ? [{ name: "A month", num: true, cell: (row: ClientCost) => <b>{money(row.cost, prices)}</b> }] : []),
  ];
  return (
    <Card title="Who causes it" right="storage by what each writes now">
      {rows.length === 0 ? <Empty title="Nobody writes or reads." /> : <Rows rows={rows} columns={columns} id={(row) => row.name} label="Who causes it" />}
    </Card>
  );
}
