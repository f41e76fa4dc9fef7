// What differs between two texts, line by line: the longest common run decides which lines are new and which are gone.
export interface Line {
  kind: "" | "+" | "-";
  text: string;
}

export function difference(before: string[], after: string[]): Line[] {
  const size = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--) {
      const row = size[i] as Uint16Array;
      const next = size[i + 1] as Uint16Array;
      row[j] = before[i] === after[j] ? (next[j + 1] as number) + 1 : Math.max(next[j] as number, row[j + 1] as number);
    }
  const found: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      found.push({ kind: "", text: before[i] as string });
      i++;
      j++;
    } else if (i < before.length && (j >= after.length || ((size[i + 1] as Uint16Array)[j] as number) >= ((size[i] as Uint16Array)[j + 1] as number))) found.push({ kind: "-", text: before[i++] as string });
    else found.push({ kind: "+", text: after[j++] as string });
  }
  return found;
}
