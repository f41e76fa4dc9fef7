import { duration } from "./format";

export const ago = (ms: number): string => `${duration(Math.max(0, Date.now() - ms))} ago`;
