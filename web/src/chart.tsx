// A chart of one or two series over time, drawn by uPlot in the colours of the theme.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { call } from "./api";
import { short } from "./format";
import { tick, useHere } from "./state";
import { useSignal } from "@preact/signals";

export interface Series {
  name: string;
  label: string;
  colour: "--s1" | "--s2";
}

interface Answer {
  points: [number, number, number, number][];
  marks: { at_ms: number; kind: string; text: string }[];
}

const SPANS: Record<string, number> = { "1 h": 3_600_000, "4 h": 4 * 3_600_000, "24 h": 86_400_000, "7 d": 7 * 86_400_000 };
export const spans = Object.keys(SPANS).map((each) => [each, each] as [string, string]);

export const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart({ series, span, height, label }: { series: Series[]; span: string; height: number; label: string }) {
  const { cluster } = useHere();
  const place = useRef<HTMLDivElement>(null);
  const said = useSignal("");
  const names = series.map((each) => each.name).join(" ");
  useEffect(() => {
    let gone = false;
    let plot: uPlot | null = null;
    const to = Date.now();
    const from = to - (SPANS[span] ?? 3_600_000);
    const path = `/api/c/${encodeURIComponent(cluster)}/history`;
    void Promise.all(series.map((each) => call<Answer>(`${path}?series=${encodeURIComponent(each.name)}&from=${from}&to=${to}`)))
      .then((answers) => {
        const box = place.current;
        if (gone || !box) return;
        if (answers.every((each) => each.points.length < 2)) {
          said.value = "Points appear as the cluster is looked at; there are not two of them yet.";
          return;
        }
        said.value = "";
        plot = drawn(box, series, answers, from, to, height);
      })
      .catch((error: unknown) => (said.value = (error as Error).message));
    const resize = () => plot?.setSize({ width: place.current?.clientWidth ?? 300, height });
    window.addEventListener("resize", resize);
    return () => {
      gone = true;
      window.removeEventListener("resize", resize);
      plot?.destroy();
    };
  }, [names, span, cluster, tick.value]);
  return (
    <div class="body chart-box" role="img" aria-label={label}>
      {said.value ? <p class="dim">{said.value}</p> : <div ref={place} class={height > 150 ? "plot-tall" : "plot-low"} />}
    </div>
  );
}

function drawn(box: HTMLDivElement, series: Series[], answers: Answer[], from: number, to: number, height: number): uPlot {
  box.replaceChildren();
  const times = [...new Set(answers.flatMap((each) => each.points.map((point) => point[0] / 1000)))].sort((a, b) => a - b);
  const columns = answers.map((each) => {
    const known = new Map(each.points.map((point) => [point[0] / 1000, point[1]]));
    return times.map((at) => known.get(at) ?? null);
  });
  const marks = answers[0]?.marks ?? [];
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: colour("--ink-3"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font };
  return new uPlot(
    {
      width: box.clientWidth || 300,
      height,
      legend: { show: false },
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { range: () => [from / 1000, to / 1000] }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
      axes: [
        { ...axis, grid: { show: false }, space: 90, values: (_, ticks) => ticks.map(time) },
        { ...axis, size: 52, values: (_, ticks) => ticks.map((each) => short(each).join(" ").trim()) },
      ],
      series: [
        {},
        ...series.map((each, index) => ({
          label: each.label,
          stroke: colour(each.colour),
          width: 1.75,
          spanGaps: true,
          points: { show: false },
          ...(index === 0 ? { fill: colour("--s-fill") } : {}),
        })),
      ],
      hooks: {
        draw: [
          (plot) => {
            for (const mark of marks) {
              const x = plot.valToPos(mark.at_ms / 1000, "x", true);
              plot.ctx.save();
              plot.ctx.strokeStyle = colour("--line-2");
              plot.ctx.fillStyle = colour("--ink-2");
              plot.ctx.font = font;
              plot.ctx.setLineDash([4, 3]);
              plot.ctx.beginPath();
              plot.ctx.moveTo(x, plot.bbox.top);
              plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
              plot.ctx.stroke();
              plot.ctx.fillText(mark.text, x + 4, plot.bbox.top + 11);
              plot.ctx.restore();
            }
          },
        ],
      },
    },
    [times, ...columns],
    box,
  );
}

function time(seconds: number): string {
  const at = new Date(seconds * 1000);
  return `${String(at.getHours()).padStart(2, "0")}:${String(at.getMinutes()).padStart(2, "0")}`;
}

export const Legend = ({ series }: { series: Series[] }) => (
  <span class="legend">
    {series.map((each) => (
      <span key={each.name} class={each.colour.slice(2)}>
        {each.label}
      </span>
    ))}
  </span>
);

