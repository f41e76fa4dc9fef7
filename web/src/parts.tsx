// The parts that pages are made of.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { Link } from "wouter-preact";
import type { Loaded } from "./state";

const ICONS: Record<string, JSX.Element> = {
  overview: <path d="M2.5 13.5v-5M6.2 13.5v-9M9.8 13.5v-6M13.5 13.5v-11" />,
  topics: <path d="M2.5 4.5h11M2.5 8h8M2.5 11.5h5" />,
  groups: (
    <>
      <circle cx="5.5" cy="5.5" r="2.5" />
      <path d="M1.5 13c.4-2.4 1.900-3.600 4-3.600s3.600 1.200 4 3.600M10.500 3.200a2.500 2.500 0 0 1 0 4.600M11.800 9.600c1.500.4 2.400 1.600 2.700 3.400" />
    </>
  ),
  brokers: (
    <>
      <rect x="2.500" y="2.500" width="11" height="4.500" rx="1" />
      <rect x="2.500" y="9" width="11" height="4.500" rx="1" />
      <path d="M5 4.750h.01M5 11.250h.01" />
    </>
  ),
  schemas: <path d="M5.500 2.500C4 2.500 4 4 4 5s0 3-1.500 3C4 8 4 10 4 11s0 2.500 1.500 2.500M10.500 2.500C12 2.500 12 4 12 5s0 3 1.500 3C12 8 12 10 12 11s0 2.500-1.500 2.500" />,
  letters: <path d="M2.500 4h11v8h-11zM2.500 4.500L8 9l5.500-4.500" />,
  connect: <path d="M2.500 8h3M10.500 8h3M5.500 5v6M5.500 5h2a3 3 0 0 1 0 6h-2M10.500 8a3 3 0 0 0-3-3" />,
  streams: <path d="M2 5.500c2-2.500 4-2.500 6 0s4 2.500 6 0M2 10.500c2-2.500 4-2.500 6 0s4 2.500 6 0" />,
  sql: <path d="M2.500 3.500l3.500 4-3.500 4M8 12.500h5.500" />,
  transactions: <path d="M2.500 5.500h10l-2.500-2.500M13.500 10.500h-10l2.500 2.500" />,
  quorum: (
    <>
      <circle cx="8" cy="4" r="1.700" />
      <circle cx="3.800" cy="11.500" r="1.700" />
      <circle cx="12.200" cy="11.500" r="1.700" />
      <path d="M7.200 5.600l-2.600 4.300M8.800 5.600l2.600 4.300M5.500 11.500h5" />
    </>
  ),
  reassign: <path d="M2.500 3.500h4v4h-4zM9.500 8.500h4v4h-4zM8.500 5.500h3v1.500M7.500 10.500h-3V9" />,
  access: (
    <>
      <rect x="3.500" y="7" width="9" height="6.500" rx="1" />
      <path d="M5.500 7V5a2.500 2.500 0 0 1 5 0v2M8 9.500v1.500" />
    </>
  ),
  replays: <path d="M3 8a5 5 0 1 0 1.600-3.700M3 2.500v3h3M7 6v4.200l3-2.100z" />,
  alerts: <path d="M4 11V7.500a4 4 0 0 1 8 0V11l1 1.500H3zM6.800 14h2.400" />,
  lineage: <path d="M2.500 4h2.500M2.500 12h2.500M11 8h2.500M5 4c3 0 3 4 6 4M5 12c3 0 3-4 6-4" />,
  cost: (
    <>
      <ellipse cx="8" cy="4.500" rx="5" ry="2" />
      <path d="M3 4.500v7c0 1.100 2.200 2 5 2s5-.900 5-2v-7M3 8c0 1.100 2.200 2 5 2s5-.900 5-2" />
    </>
  ),
  audit: <path d="M3 2.500h10v11H3zM5.500 5.500h5M5.500 8h5M5.500 10.500h3" />,
  find: (
    <>
      <circle cx="7" cy="7" r="4.200" />
      <path d="M10.200 10.200l3.300 3.300" />
    </>
  ),
  down: <path d="M4.500 6.500L8 10l3.500-3.500" />,
  close: <path d="M4 4l8 8M12 4l-8 8" />,
  copy: (
    <>
      <rect x="5.500" y="5.500" width="8" height="8" rx="1" />
      <path d="M10.500 5.500v-3h-8v8h3" />
    </>
  ),
  stop: <rect x="4.500" y="4.500" width="7" height="7" rx="1" />,
  more: <path d="M3.500 8h.01M8 8h.01M12.500 8h.01" />,
};

export const Icon = ({ name }: { name: string }) => (
  <svg class="i" viewBox="0 0 16 16" aria-hidden="true">
    {ICONS[name]}
  </svg>
);

export function Card(props: { title?: ComponentChildren; right?: ComponentChildren; class?: string; label?: string; children: ComponentChildren }) {
  return (
    <section class={`card ${props.class ?? ""}`} aria-label={props.label}>
      {props.title !== undefined && (
        <header>
          <h2>{props.title}</h2>
          {props.right !== undefined && <span class="r">{props.right}</span>}
        </header>
      )}
      {props.children}
    </section>
  );
}

export const Pill = ({ kind, children }: { kind?: string; children: ComponentChildren }) => <span class={`pill ${kind ?? ""}`}>{children}</span>;

// What a page shows before, instead of and beside its data: grey lines after 200 ms, why there is nothing, how old it is.
export function Shown<T>({ loaded, children }: { loaded: Loaded<T>; children: (data: T) => ComponentChildren }) {
  if (loaded.data !== null) {
    return (
      <>
        {loaded.error && (
          <div class="callout bad gap" role="status">
            <b>These figures are old.</b> {loaded.error}
          </div>
        )}
        {children(loaded.data)}
      </>
    );
  }
  if (loaded.loading) return <div class="loading" role="status" aria-busy="true" aria-label="Loading" />;
  return (
    <div class="callout bad" role="alert">
      <b>{loaded.status === 404 ? "Not there." : loaded.status === 403 ? "Not allowed." : "This cannot be shown."}</b> {loaded.error}{" "}
      <button class="btn" onClick={loaded.again}>
        Try again
      </button>
    </div>
  );
}

export const Empty = ({ title, children }: { title: string; children?: ComponentChildren }) => (
  <div class="empty">
    <b>{title}</b>
    {children && <p>{children}</p>}
  </div>
);

export interface Column<Row> {
  name: string;
  key?: string;
  num?: boolean;
  hide?: boolean;
  width?: string;
  cell: (row: Row) => ComponentChildren;
}

const ROW = 32;
const AHEAD = 12;

// A table of any length with as many rows in the document as fit the window: the others are one blank row above and below.
export function Rows<Row>(props: {
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  id: (row: Row) => string;
  sort?: string;
  onSort?: (key: string) => void;
  selected?: string;
  label: string;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const range = useSignal<[number, number]>([0, 60]);
  const long = props.rows.length > 80;
  useEffect(() => {
    if (!long) return undefined;
    const main = document.getElementById("main");
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / ROW) - AHEAD);
      const last = first + Math.ceil(window.innerHeight / ROW) + 2 * AHEAD;
      if (first !== range.value[0] || last !== range.value[1]) range.value = [first, last];
    };
    look();
    main?.addEventListener("scroll", look, { passive: true });
    window.addEventListener("scroll", look, { passive: true });
    window.addEventListener("resize", look);
    return () => {
      main?.removeEventListener("scroll", look);
      window.removeEventListener("scroll", look);
      window.removeEventListener("resize", look);
    };
  }, [long, props.rows.length]);
  const [first, last] = long ? range.value : [0, props.rows.length];
  const columns = props.columns;
  return (
    <table aria-label={props.label} aria-rowcount={props.rows.length + 1}>
      <thead>
        <tr>
          {columns.map((each) => {
            const sorted = props.sort === each.key ? "ascending" : props.sort === `-${each.key}` ? "descending" : undefined;
            return (
              <th key={each.name} class={`${each.num ? "num" : ""} ${each.hide ? "m-hide" : ""} ${each.width ?? ""}`} aria-sort={sorted}>
                {each.key && props.onSort ? (
                  <button class="sort" onClick={() => props.onSort?.(props.sort === `-${each.key}` ? String(each.key) : `-${each.key}`)}>
                    {each.name}
                    {sorted === "descending" ? " ↓" : sorted === "ascending" ? " ↑" : ""}
                  </button>
                ) : (
                  each.name
                )}
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody ref={body}>
        {first > 0 && <Blank height={first * ROW} columns={columns.length} />}
        {props.rows.slice(first, last).map((row) => (
          <tr key={props.id(row)} aria-selected={props.selected === props.id(row) || undefined}>
            {columns.map((each) => (
              <td key={each.name} class={`${each.num ? "num" : ""} ${each.hide ? "m-hide" : ""}`}>
                {each.cell(row)}
              </td>
            ))}
          </tr>
        ))}
        {last < props.rows.length && <Blank height={(props.rows.length - last) * ROW} columns={columns.length} />}
      </tbody>
    </table>
  );
}

function Blank({ height, columns }: { height: number; columns: number }) {
  const cell = useRef<HTMLTableCellElement>(null);
  useEffect(() => {
    if (cell.current) cell.current.style.height = `${height}px`;
  }, [height]);
  return (
    <tr aria-hidden="true">
      <td ref={cell} colSpan={columns} />
    </tr>
  );
}

// A partition from its first to its last offset: what is read, where the reader stands, what is left.
export function Rail(props: { start: number; end: number; at?: number; from?: number; looked?: [number, number] | null; hits?: number[] }) {
  const from = props.from ?? props.start;
  const span = Math.max(1, props.end - from);
  const share = (offset: number) => Math.min(100, Math.max(0, ((offset - from) / span) * 100));
  const at = props.at;
  return (
    <div class="rail" aria-hidden="true">
      {at !== undefined && (
        <>
          <Piece left={share(props.start)} width={share(at) - share(props.start)} />
          {at < props.end && <Piece left={share(at)} width={100 - share(at)} kind="behind" />}
          <Line left={share(at)} />
        </>
      )}
      {props.looked && <Piece left={share(props.looked[0])} width={share(props.looked[1]) - share(props.looked[0])} kind="done" />}
      {props.hits?.map((hit) => <Line key={hit} left={share(hit)} hit />)}
    </div>
  );
}

function Piece({ left, width, kind }: { left: number; width: number; kind?: string }) {
  return <i class={kind ?? ""} style={{ left: `${left}%`, width: `${width}%` }} />;
}

const Line = ({ left, hit }: { left: number; hit?: boolean }) => <u class={hit ? "hit" : ""} style={{ left: `calc(${left}% - 1px)` }} />;

export function Spark({ points, bad }: { points: number[]; bad?: boolean }) {
  if (points.length < 2) return <span class="dim">–</span>;
  const most = Math.max(1, ...points);
  const path = points.map((value, index) => `${index ? "L" : "M"}${((index / (points.length - 1)) * 84).toFixed(1)} ${(19 - (value / most) * 18).toFixed(1)}`).join(" ");
  return (
    <svg class={`spark ${bad ? "bad" : ""}`} viewBox="0 0 84 20" preserveAspectRatio="none" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

export function Bar({ share, warn }: { share: number; warn?: boolean }) {
  return (
    <div class="bar" aria-hidden="true">
      <i class={warn ? "warn" : ""} style={{ width: `${Math.round(share * 100)}%` }} />
    </div>
  );
}

export function Tabs({ label, tabs }: { label: string; tabs: { name: string; href: string; here: boolean; n?: ComponentChildren }[] }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((each) => (
        <Link key={each.name} href={each.href} aria-current={each.here ? "page" : undefined}>
          {each.name}
          {each.n !== undefined && <span class="n">{each.n}</span>}
        </Link>
      ))}
    </nav>
  );
}

export function Segments({ label, value, options, set }: { label: string; value: string; options: [string, string][]; set: (value: string) => void }) {
  return (
    <div class="seg" role="group" aria-label={label}>
      {options.map(([key, name]) => (
        <button key={key} type="button" aria-pressed={value === key} onClick={() => set(key)}>
          {name}
        </button>
      ))}
    </div>
  );
}

// A dialog of the browser's own: it keeps the focus inside, closes with Escape and gives the focus back.
export function Dialog(props: { title: string; close: () => void; wide?: boolean; children: ComponentChildren; footer?: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={`dialog ${props.wide ? "wide" : ""}`}
      aria-label={props.title}
      onCancel={(event) => {
        event.preventDefault();
        props.close();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) props.close();
      }}
    >
      <header>
        <h2>{props.title}</h2>
        <button class="btn quiet sq last" aria-label="Close" onClick={props.close}>
          <Icon name="close" />
        </button>
      </header>
      <div class="body">{props.children}</div>
      {props.footer && <footer>{props.footer}</footer>}
    </dialog>
  );
}

export function Copy({ text, label }: { text: string; label: string }) {
  const done = useSignal(false);
  return (
    <button
      class="btn quiet sq last"
      aria-label={done.value ? "Copied" : label}
      title={done.value ? "Copied" : label}
      onClick={() => {
        void navigator.clipboard?.writeText(text).then(() => {
          done.value = true;
          setTimeout(() => (done.value = false), 1500);
        });
      }}
    >
      <Icon name="copy" />
    </button>
  );
}

export const Cli = ({ text }: { text: string }) => (
  <div class="cli">
    <span aria-hidden="true">$</span>
    <span class="clip" title={text}>
      {text}
    </span>
    <Copy text={text} label="Copy the command" />
  </div>
);

// JSON with its numbers as they were written: tokens are coloured, nothing is parsed into JavaScript's numbers.
export function Json({ text, find }: { text: string; find?: string[] }) {
  const pretty = indented(text);
  return <pre tabIndex={0}>{pretty.map((token, index) => (token.kind ? <span key={index} class={token.kind}>{marked(token.text, find)}</span> : marked(token.text, find)))}</pre>;
}

export function marked(text: string, find?: string[]): ComponentChildren {
  const words = (find ?? []).filter((each) => each && text.toLowerCase().includes(each.toLowerCase()));
  const word = words[0];
  if (!word) return text;
  const at = text.toLowerCase().indexOf(word.toLowerCase());
  return [text.slice(0, at), <mark>{text.slice(at, at + word.length)}</mark>, text.slice(at + word.length)];
}

interface Token {
  text: string;
  kind: string;
}

export function indented(text: string): Token[] {
  const found: Token[] = [];
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|-?\d[\d.eE+-]*|true|false|null/g) ?? [text];
  let depth = 0;
  const line = () => found.push({ text: `\n${"  ".repeat(depth)}`, kind: "" });
  tokens.forEach((token, index) => {
    const next = tokens[index + 1];
    if (token === "{" || token === "[") {
      found.push({ text: token, kind: "" });
      if (next !== "}" && next !== "]") {
        depth += 1;
        line();
      }
    } else if (token === "}" || token === "]") {
      const before = tokens[index - 1];
      if (before !== "{" && before !== "[") {
        depth = Math.max(0, depth - 1);
        line();
      }
      found.push({ text: token, kind: "" });
    } else if (token === ",") {
      found.push({ text: token, kind: "" });
      line();
    } else if (token === ":") {
      found.push({ text: ": ", kind: "" });
    } else {
      const kind = token.startsWith('"') ? (next === ":" ? "key" : "str") : /^[-\d]/.test(token) ? "nm" : "kw";
      found.push({ text: token, kind });
    }
  });
  return found;
}

// What a control that needs an operation is given: disabled, and saying what is missing, where the brokers do not allow it.
export function needs(operations: readonly string[] | undefined, operation: string, what: string): { disabled?: boolean; title?: string } {
  if (operations === undefined || operations.includes(operation)) return {};
  return { disabled: true, title: `needs ${operation} on ${what}` };
}
