// Numbers, bytes, times and durations as people read them.
const number = new Intl.NumberFormat("en-US");

export const count = (value: number | null | undefined): string => (value === null || value === undefined ? "–" : number.format(Math.round(value)));

export function short(value: number | null | undefined): [string, string] {
  if (value === null || value === undefined) return ["–", ""];
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (Math.abs(value) >= size * 10 || (size > 1e3 && Math.abs(value) >= size)) return [trim(value / size), unit];
  }
  return [Math.abs(value) < 10 && value % 1 ? value.toFixed(1) : number.format(Math.round(value)), ""];
}

export const trim = (value: number): string => (Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2)).replace(/\.0+$/, "");

export function bytes(value: number | null | undefined): [string, string] {
  if (value === null || value === undefined || value < 0) return ["–", ""];
  for (const [size, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as const) {
    if (value >= size) return [trim(value / size), unit];
  }
  return [String(Math.round(value)), "B"];
}

export const bytesText = (value: number | null | undefined): string => bytes(value).join(" ").trim();

export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return value === 0 ? "0" : value < 10 ? value.toFixed(1) : number.format(Math.round(value));
}

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  const s = ms / 1000;
  if (s < 1) return ms === 0 ? "0 s" : "< 1 s";
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 90 * 60) return `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

const pad = (value: number, size = 2): string => String(value).padStart(size, "0");

export function clock(ms: number, withMillis = false): string {
  const at = new Date(ms);
  const text = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return withMillis ? `${text}.${pad(at.getMilliseconds(), 3)}` : text;
}

export function moment(ms: number): string {
  if (ms < 0) return "no time";
  const at = new Date(ms);
  const today = new Date();
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return at.toDateString() === today.toDateString() ? clock(ms, true) : `${day} ${clock(ms, true)}`;
}

export const plural = (value: number, word: string, words = `${word}s`): string => `${number.format(value)} ${value === 1 ? word : words}`;
