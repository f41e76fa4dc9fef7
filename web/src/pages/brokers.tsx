import { bytesText, count, duration, plural } from "../format";
import { Bar, Card, type Column, Rows, Shown } from "../parts";
import { useHere, useLoaded, useParam } from "../state";
import type { BrokerRow, Sampled } from "../types";
import { Config } from "./config";

export default function BrokersPage() {
  const { cluster } = useHere();
  const [broker, setBroker] = useParam("broker");
  const base = `/api/c/${encodeURIComponent(cluster)}/brokers`;
  const loaded = useLoaded<Sampled & { items: BrokerRow[] }>(base);
  const columns: Column<BrokerRow>[] = [
    {
      name: "Broker",
      cell: (row) => (
        <>
          <button class="link" onClick={() => setBroker(String(row.id), false)}>
            {row.id}
          </button>{" "}
          <span class="dim">
            {row.host}:{row.port}
          </span>
        </>
      ),
    },
    { name: "Rack", hide: true, cell: (row) => row.rack ?? "–" },
    { name: "Role", hide: true, cell: (row) => (row.is_controller ? "controller" : "broker") },
    { name: "Leads", num: true, cell: (row) => count(row.leads) },
    { name: "Copies", num: true, cell: (row) => count(row.partitions) },
    { name: "Holds", num: true, hide: true, cell: (row) => bytesText(row.bytes) },
    {
      name: "Disk",
      width: "w-disk",
      cell: (row) => {
        if (row.total_bytes <= 0) return "–";
        const used = 1 - row.usable_bytes / row.total_bytes;
        return (
          <div class="with-bar">
            <Bar share={used} warn={used > 0.85} />
            {Math.round(used * 100)} %
          </div>
        );
      },
    },
    { name: "Full in", hide: true, cell: (row) => (row.full_in_s === null ? "–" : `about ${duration(row.full_in_s * 1000)}`) },
  ];
  return (
    <Shown loaded={loaded}>
      {(data) => (
        <>
          <div class="head">
            <div>
              <h1>Brokers</h1>
              <p class="sub">
                <span>{plural(data.items.length, "broker")}</span>
              </p>
            </div>
          </div>
          <Card label="Brokers">
            <Rows rows={data.items} columns={columns} id={(row) => String(row.id)} selected={broker} label="Brokers" />
          </Card>
          {broker && <Config title={`Settings of broker ${broker}`} path={`${base}/${broker}/config`} type="brokers" name={broker} />}
        </>
      )}
    </Shown>
  );
}
