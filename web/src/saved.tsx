// Texts that somebody has kept under names: conditions of searches, statements. They stay in this browser.
import { useSignal } from "@preact/signals";

interface Props {
  of: string;
  what: string;
  text: string;
  use: (text: string) => void;
}

const MOST = 100;

function read(key: string): Record<string, string> {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(key) ?? "{}");
    return typeof found === "object" && found !== null ? (found as Record<string, string>) : {};
  } catch {
    return {};
  }
}

export function Saved({ of, what, text, use }: Props) {
  const key = `ottla.saved.${of}`;
  const all = useSignal(read(key));
  const naming = useSignal<string | null>(null);
  const keep = (next: Record<string, string>) => {
    all.value = next;
    localStorage.setItem(key, JSON.stringify(next));
  };
  const names = Object.keys(all.value).sort();
  const known = names.find((each) => all.value[each] === text);
  if (naming.value !== null) {
    return (
      <form
        class="field m-hide"
        onSubmit={(event) => {
          event.preventDefault();
          const name = (naming.value ?? "").trim();
          if (name) keep(Object.fromEntries(Object.entries({ ...all.value, [name]: text }).slice(-MOST)));
          naming.value = null;
        }}
      >
        <input
          class="bare"
          aria-label={`Name for this ${what}`}
          placeholder="name, then Enter"
          ref={(box) => box?.focus()}
          value={naming.value}
          onInput={(event) => (naming.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") naming.value = null;
          }}
        />
      </form>
    );
  }
  return (
    <label class="field m-hide">
      <span class="lb">saved</span>
      <select
        class="bare"
        aria-label={`Saved: each ${what} under its name`}
        value={known ?? ""}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          event.currentTarget.value = known ?? "";
          if (chosen === "+") naming.value = known ?? "";
          else if (chosen === "-" && known) keep(Object.fromEntries(Object.entries(all.value).filter(([name]) => name !== known)));
          else if (chosen.startsWith("=")) use(all.value[chosen.slice(1)] ?? "");
        }}
      >
        <option value={known ?? ""}>{known ?? (names.length ? "choose…" : "none")}</option>
        {names
          .filter((each) => each !== known)
          .map((each) => (
            <option key={each} value={`=${each}`}>
              {each}
            </option>
          ))}
        {text.trim() && <option value="+">Save this {what}…</option>}
        {known && <option value="-">Forget “{known}”</option>}
      </select>
    </label>
  );
}
