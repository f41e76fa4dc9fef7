import { Link } from "wouter-preact";
import { ago } from "../ago";
import { Chart, Legend, spans, type Series } from "../chart";
import { caught } from "../caught";
import { bytes, bytesText, count, duration, moment, plural, short, trim } from "../format";
import { Bar, Card, Empty, Segments, Shown, Spark } from "../parts";
import { sampled, useHere, useLoaded, useParam } from "../state";
import type { BrokerRow, GroupRow } from "../types";

interface Overview {
  verdict: string;
  cluster_id: string;
  brokers: BrokerRow[];
  racks: number;
  topics: number;
  is_empty: boolean;
  partitions: number;
  in_per_s: number | null;
  consumed_per_s: number | null;
  copies: number;
  copies_out_of_sync: number;
  lag: number;
  groups: number;
  groups_with_lag: GroupRow[];
  bytes: number;
  disk_total: number | null;
  disk_free: number | null;
  findings: { severity: string; title: string; text: string; link: string }[];
}

const LATELY = 6;
const TRAFFIC: Series[] = [{ name: "in", label: "Written", colour: "--s1" }];

export default function OverviewPage() {
  const { cluster } = useHere();
  const [span, setSpan] = useParam("span", "1 h");
  const loaded = useLoaded<Overview>(`/api/c/${encodeURIComponent(cluster)}/overview`);
  return (
    <Shown loaded={loaded}>
      {(data) => (
        <>
          <div class="head">
            <div>
              <h1>{data.verdict}</h1>
              <p class="sub">
                <span>{plural(data.brokers.length, "broker")}{data.racks > 1 ? `, ${data.racks} racks` : ""}</span>
                <span>
                  {plural(data.topics, "topic")}, {plural(data.partitions, "partition")}
                </span>
                <span class="m-hide">cluster {data.cluster_id}</span>
                {sampled.value.at !== null && <span class="m-hide">looked at {ago(sampled.value.at)}{sampled.value.period > 5 ? `, each ${sampled.value.period} s` : ""}</span>}
              </p>
            </div>
            <div class="acts">
              <Segments label="Time span" value={span} options={spans} set={setSpan} />
            </div>
          </div>
          {data.is_empty ? <FirstSteps /> : null}
          <Figures data={data} />
          <div class="grid gap-top">
            <Card class="c5" title="Needs attention" right={data.findings.length ? plural(data.findings.length, "finding") : ""}>
              {data.findings.length === 0 ? (
                <Empty title="Nothing needs attention.">Partitions have their leaders, copies are in sync, groups keep up, disks have room.</Empty>
              ) : (
                <ul class="list">
                  {data.findings.slice(0, 6).map((each) => (
                    <li key={each.title + each.text}>
                      <span class={`sev ${each.severity}`} />
                      <div class="t">
                        <b>
                          <Link href={`/c/${cluster}${each.link}`}>{each.title}</Link>
                        </b>
                        <div class="fix">{each.text}</div>
                      </div>
                    </li>
                  ))}
                </ul>
              )}
            </Card>
            <Card class="c7" title={<>Traffic <span class="dim">records/s</span></>} right={<Legend series={TRAFFIC} />}>
              <Chart series={TRAFFIC} span={span} height={150} label="Records a second that are written" />
            </Card>
            <Brokers rows={data.brokers} cluster={cluster} />
            <Card class="c7" title="Groups with lag" right={<Link href={`/c/${cluster}/groups`}>{plural(data.groups, "group")}</Link>}>
              {data.groups_with_lag.length === 0 ? <Empty title="No group is behind." /> : <Behind rows={data.groups_with_lag} cluster={cluster} />}
            </Card>
            <Changed cluster={cluster} />
          </div>
        </>
      )}
    </Shown>
  );
}

function FirstSteps() {
  const { cluster } = useHere();
  return (
    <div class="callout gap">
      <b>The cluster is empty.</b> <Link href={`/c/${cluster}/topics?new=1`}>Create a topic</Link>, then write a first record on its page, or connect a program to its brokers: any Kafka client will do.
    </div>
  );
}

function Figures({ data }: { data: Overview }) {
  const [written, writtenUnit] = short(data.in_per_s);
  const [read, readUnit] = short(data.consumed_per_s);
  const [lag, lagUnit] = short(data.lag);
  const [held, heldUnit] = bytes(data.bytes);
  const used = data.disk_total && data.disk_free !== null ? 1 - data.disk_free / data.disk_total : null;
  const full = Math.min(...data.brokers.map((each) => each.full_in_s ?? Infinity));
  return (
    <Card label="Key figures">
      <dl class="figs">
        <div class="fig">
          <dt>Written</dt>
          <dd>
            {written} <small>{writtenUnit} records/s</small>
          </dd>
        </div>
        <div class="fig">
          <dt>Consumed</dt>
          <dd>
            {read} <small>{readUnit} records/s</small>
          </dd>
          <dd class="note">{data.in_per_s && data.consumed_per_s !== null ? `${trim(data.consumed_per_s / data.in_per_s)} × what is written` : ""}</dd>
        </div>
        <div class="fig">
          <dt>Copies not in sync</dt>
          <dd>
            {count(data.copies_out_of_sync)} <small>of {count(data.copies)}</small>
          </dd>
        </div>
        <div class="fig">
          <dt>Consumer lag</dt>
          <dd>
            {lag} <small>{lagUnit} records</small>
          </dd>
          <dd class="note">{data.groups_with_lag[0] ? `most in ${data.groups_with_lag[0].name}` : ""}</dd>
        </div>
        <div class="fig">
          <dt>Records held</dt>
          <dd>
            {held} <small>{heldUnit}</small>
          </dd>
        </div>
        <div class="fig">
          <dt>Disk</dt>
          <dd>
            {used === null ? "–" : `${Math.round(used * 100)} %`} <small>of {bytesText(data.disk_total)}</small>
          </dd>
          <dd class="note">{data.disk_free === null ? "" : `${bytesText(data.disk_free)} free`}{full === Infinity ? "" : `, full in about ${duration(full * 1000)}`}</dd>
        </div>
      </dl>
    </Card>
  );
}

function Brokers({ rows, cluster }: { rows: BrokerRow[]; cluster: string }) {
  return (
    <Card class="c12" title="Brokers" right={<Link href={`/c/${cluster}/brokers`}>Settings</Link>}>
      <table>
        <thead>
          <tr>
            <th>Broker</th>
            <th>Address</th>
            <th class="m-hide">Rack</th>
            <th class="m-hide">Role</th>
            <th class="num">Leads</th>
            <th class="num">Holds</th>
            <th class="w-disk">Disk</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((each) => {
            const used = each.total_bytes > 0 ? 1 - each.usable_bytes / each.total_bytes : null;
            return (
              <tr key={each.id}>
                <td>
                  <Link href={`/c/${cluster}/brokers?broker=${each.id}`}>{each.id}</Link>
                </td>
                <td class="dim clip">
                  {each.host}:{each.port}
                </td>
                <td class="m-hide">{each.rack ?? "–"}</td>
                <td class="m-hide">{each.is_controller ? "controller" : "broker"}</td>
                <td class="num">
                  {count(each.leads)} <span class="dim">of {count(each.partitions)}</span>
                </td>
                <td class="num">{bytesText(each.bytes)}</td>
                <td>
                  {used === null ? (
                    "–"
                  ) : (
                    <div class="with-bar">
                      <Bar share={used} warn={used > 0.85} />
                      {Math.round(used * 100)} %
                    </div>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Card>
  );
}

function Behind({ rows, cluster }: { rows: GroupRow[]; cluster: string }) {
  return (
    <table class="fits">
      <thead>
        <tr>
          <th>Group</th>
          <th class="m-hide w-topic">Topic</th>
          <th class="num w-lag">Records</th>
          <th class="num w-ago">Time</th>
          <th class="m-hide w-spark">4 h</th>
          <th class="m-hide w-caught">Caught up in</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((each) => (
          <tr key={each.name}>
            <td class="clip">
              <Link title={each.name} href={`/c/${cluster}/groups/${encodeURIComponent(each.name)}`}>
                {each.name}
              </Link>
            </td>
            <td class="clip m-hide" title={each.topics.join(", ")}>
              {each.topics[0] ?? "–"}
              {each.topics.length > 1 ? ` and ${each.topics.length - 1} more` : ""}
            </td>
            <td class="num">{count(each.lag)}</td>
            <td class="num">{duration(each.lag_ms)}</td>
            <td class="m-hide">
              <Spark points={each.recent} bad={(each.lag_ms ?? 0) > 300_000} />
            </td>
            <td class="m-hide clip">{caught(each)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// The newest changes by this console: who asks may see some of them, or none.
function Changed({ cluster }: { cluster: string }) {
  const loaded = useLoaded<{ items: { id: number; at_ms: number; who: string; action: string; diff: { path: string }[] }[] }>(`/api/c/${encodeURIComponent(cluster)}/audit`);
  const items = loaded.data?.items.slice(0, LATELY) ?? [];
  return (
    <Card class="c5" title="Changed lately" right={<Link href={`/c/${cluster}/audit`}>All changes</Link>}>
      {items.length === 0 ? (
        <Empty title={loaded.loading ? " " : loaded.error || "Nothing was changed here yet."} />
      ) : (
        <table class="fits">
          <thead>
            <tr>
              <th class="w-time">When</th>
              <th class="m-hide w-who">Who</th>
              <th>What</th>
            </tr>
          </thead>
          <tbody>
            {items.map((each) => (
              <tr key={each.id}>
                <td class="dim">{moment(each.at_ms).replace(/\.\d+$/, "")}</td>
                <td class="clip m-hide">{each.who}</td>
                <td class="clip" title={each.diff.map((one) => one.path).join("; ")}>
                  {each.action.replaceAll("-", " ")} <span class="dim">{each.diff[0]?.path ?? ""}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}
