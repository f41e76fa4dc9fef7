// Draws series over time by uPlot in the colours of the theme.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { short } from "./format";

export interface Series {
  name: string;
  label: string;
  colour: "--s1" | "--s2";
}

export interface Answer {
  points: [number, number, number, number][];
  marks: { at_ms: number; kind: string; text: string }[];
}

export type Drawn = uPlot;

export const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function drawn(box: HTMLDivElement, series: Series[], answers: Answer[], from: number, to: number, height: number): Drawn {
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
      padding: [8, 10, 0, 0],
      legend: { show: false },
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { range: () => [from / 1000, to / 1000] }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
      axes: [
        { ...axis, grid: { show: false }, size: 24, space: 90, values: (_, ticks) => ticks.map(time) },
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
