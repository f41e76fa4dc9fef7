import { duration } from "./format";
import { Pill } from "./parts";

export const caught = (row: { caught_up_in_s: number | null; lag: number | null }) =>
  row.caught_up_in_s === null ? "–" : row.caught_up_in_s < 0 ? <Pill kind="bad">never at this pace</Pill> : row.caught_up_in_s === 0 ? "now" : duration(row.caught_up_in_s * 1000);
