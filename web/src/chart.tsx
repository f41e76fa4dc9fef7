// A chart of one or two series over time; what draws it is loaded when there is something to draw.
import { useEffect, useRef } from "preact/hooks";
import { call } from "./api";
import type { Answer, Drawn, Series } from "./plot";
import { tick, useHere } from "./state";
import { useSignal } from "@preact/signals";

export type { Series };

const SPANS: Record<string, number> = { "1 h": 3_600_000, "4 h": 4 * 3_600_000, "24 h": 86_400_000, "7 d": 7 * 86_400_000 };
export const spans = Object.keys(SPANS).map((each) => [each, each] as [string, string]);

export function Chart({ series, span, height, label }: { series: Series[]; span: string; height: number; label: string }) {
  const { cluster } = useHere();
  const place = useRef<HTMLDivElement>(null);
  const said = useSignal("");
  const names = series.map((each) => each.name).join(" ");
  useEffect(() => {
    let gone = false;
    let plot: Drawn | null = null;
    const to = Date.now();
    const from = to - (SPANS[span] ?? 3_600_000);
    const path = `/api/c/${encodeURIComponent(cluster)}/history`;
    void Promise.all(series.map((each) => call<Answer>(`${path}?series=${encodeURIComponent(each.name)}&from=${from}&to=${to}`)))
      .then(async (answers) => {
        if (gone) return;
        if (answers.every((each) => each.points.length < 2)) {
          said.value = "Points appear as the cluster is looked at; there are not two of them yet.";
          return;
        }
        const { drawn } = await import("./plot");
        const box = place.current;
        if (gone || !box) return;
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
      {said.value && <p class="dim">{said.value}</p>}
      <div ref={place} class={height > 150 ? "plot-tall" : "plot-low"} />
    </div>
  );
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

