// Rows of a query as a chart: a column of times or numbers along, columns of numbers up, by what stands in another column.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { short } from "./format";
import { colour } from "./plot";
import { useParam } from "./state";

type Row = unknown[];

const COLOURS = ["--s1", "--s2", "--warn", "--bad", "--ink-2", "--good"];
const HEIGHT = 300;
const TIME = /time|rowtime|window|_at$|_ms$|date/i;

const number = (value: unknown): number | null => {
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value !== "string" || value === "") return null;
  const found = Number(value);
  if (Number.isFinite(found)) return found;
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : at;
};

// What stands up, along, and what tells lines apart, where nobody has chosen.
function guessed(names: string[], rows: Row[]): { along: string; up: string; by: string } {
  const sample = rows.slice(0, 50);
  const numeric = names.filter((_, index) => sample.length > 0 && sample.every((row) => row[index] === null || typeof row[index] === "number"));
  const along = names.find((name) => TIME.test(name)) ?? "";
  const up = numeric.find((name) => name !== along) ?? "";
  const isFew = (index: number) => new Set(sample.map((row) => row[index])).size <= Math.min(COLOURS.length, sample.length / 2);
  const by = names.find((name, index) => name !== along && name !== up && isFew(index) && sample.some((row) => typeof row[index] === "string")) ?? "";
  return { along, up, by };
}

// Lines over one axis; a row without a number on it is left out. Without a column along, rows stand in their order.
export function lines(names: string[], rows: Row[], along: string, up: string, by: string): { axis: number[]; labels: string[]; values: (number | null)[][]; left: number } {
  const [x, y, z] = [names.indexOf(along), names.indexOf(up), names.indexOf(by)];
  const points: { at: number; value: number; line: string }[] = [];
  rows.forEach((row, index) => {
    const at = x < 0 ? index : number(row[x]);
    const value = number(row[y]);
    if (at !== null && value !== null) points.push({ at, value, line: z < 0 ? up : String(row[z] ?? "–") });
  });
  const most = new Map<string, number>();
  for (const each of points) most.set(each.line, (most.get(each.line) ?? 0) + 1);
  const labels = [...most].sort((a, b) => b[1] - a[1]).slice(0, COLOURS.length).map(([name]) => name);
  const axis = [...new Set(points.filter((each) => labels.includes(each.line)).map((each) => each.at))].sort((a, b) => a - b);
  const place = new Map(axis.map((at, index) => [at, index]));
  const values = labels.map(() => new Array<number | null>(axis.length).fill(null));
  for (const each of points) {
    const index = labels.indexOf(each.line);
    const column = values[index];
    if (column) column[place.get(each.at) ?? 0] = each.value;
  }
  return { axis, labels, values, left: most.size - labels.length };
}

export function RowsChart({ names, types, rows }: { names: string[]; types: string[]; rows: Row[] }) {
  const place = useRef<HTMLDivElement>(null);
  const ideas = guessed(names, rows);
  const [alongAsked, setAlong] = useParam("along");
  const [upAsked, setUp] = useParam("up");
  const [byAsked, setBy] = useParam("by");
  const along = names.includes(alongAsked) ? alongAsked : alongAsked === "-" ? "" : ideas.along;
  const up = names.includes(upAsked) ? upAsked : ideas.up;
  const by = names.includes(byAsked) ? byAsked : byAsked === "-" ? "" : ideas.by;
  const found = lines(names, rows, along, up, by);
  const isTime = (found.axis[0] ?? 0) > 1e11 || /TIMESTAMP|DATE/.test(types[names.indexOf(along)] ?? "");
  useEffect(() => {
    const box = place.current;
    if (!box || found.axis.length === 0) return;
    box.replaceChildren();
    const font = "11px system-ui, sans-serif";
    const axis = { stroke: colour("--ink-3"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font };
    const plot = new uPlot(
      {
        width: box.clientWidth || 300,
        height: HEIGHT,
        legend: { show: false },
        cursor: { points: { size: 6 }, drag: { x: false, y: false } },
        scales: { x: { time: isTime } },
        axes: [{ ...axis, grid: { show: false } }, { ...axis, size: 60, values: (_, ticks) => ticks.map((each) => short(each).join(" ").trim()) }],
        series: [{}, ...found.labels.map((label, index) => ({ label, stroke: colour(COLOURS[index] ?? "--s1"), width: 1.75, spanGaps: true, points: { show: found.axis.length < 60 } }))],
      },
      [isTime ? found.axis.map((at) => at / 1000) : found.axis, ...found.values] as uPlot.AlignedData,
      box,
    );
    const resize = () => plot.setSize({ width: box.clientWidth, height: HEIGHT });
    window.addEventListener("resize", resize);
    return () => {
      window.removeEventListener("resize", resize);
      plot.destroy();
    };
  });
  const choice = (label: string, value: string, set: (value: string) => void, none: string) => (
    <label class="field">
      <span class="lb">{label}</span>
      <select class="bare" value={value || "-"} onChange={(event) => set(event.currentTarget.value)}>
        {none && <option value="-">{none}</option>}
        {names.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </label>
  );
  return (
    <div class="body">
      <div class="bar1">
        {choice("up", up, setUp, up ? "" : "nothing")}
        {choice("along", along, setAlong, "rows in order")}
        {choice("a line for each", by, setBy, "none")}
      </div>
      {found.axis.length === 0 ? (
        <p class="dim">No row has numbers to draw: choose a column that goes up.</p>
      ) : (
        <>
          <div class="chart-box" role="img" aria-label={`${up} along ${along || "the rows"}${by ? `, by ${by}` : ""}`}>
            <div ref={place} class="plot-rows" />
          </div>
          <p class="legend">
            {found.labels.map((label, index) => (
              <span key={label} class={(COLOURS[index] ?? "").slice(2)}>
                {label}
              </span>
            ))}
            {found.left > 0 && <span class="dim">and {found.left} more that have fewer rows</span>}
          </p>
        </>
      )}
    </div>
  );
}
