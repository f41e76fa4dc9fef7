// What the pages of lists share: the head with its figures and buttons, a field that filters, and dialogs opened by the address.
import type { ComponentChildren } from "preact";
import { Icon } from "./parts";

export function Head({ title, sub, children }: { title: ComponentChildren; sub?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <div class="head">
      <div>
        <h1>{title}</h1>
        <p class="sub">{sub ?? <span>{" "}</span>}</p>
      </div>
      {children && <div class="acts">{children}</div>}
    </div>
  );
}

export function Find({ value, set, label, children }: { value: string; set: (value: string) => void; label: string; children?: ComponentChildren }) {
  return (
    <div class="bar1">
      <label class="field grow">
        <Icon name="find" />
        <span class="sr">{label}</span>
        <input class="bare" type="search" placeholder={`${label}…`} value={value} data-focus="filter" onInput={(event) => set(event.currentTarget.value)} />
      </label>
      {children}
    </div>
  );
}

export function Field(props: { label: string; value: string; set: (value: string) => void; placeholder?: string; type?: string; mono?: boolean; first?: boolean; list?: string }) {
  return (
    <label class="stack">
      {props.label}
      <input
        class={`field ${props.mono ? "mono" : ""}`}
        type={props.type ?? "text"}
        autocomplete={props.type === "password" ? "new-password" : "off"}
        autofocus={props.first}
        placeholder={props.placeholder}
        list={props.list}
        value={props.value}
        onInput={(event) => props.set(event.currentTarget.value)}
      />
    </label>
  );
}

export function Choice({ label, value, set, options }: { label: string; value: string; set: (value: string) => void; options: (string | [string, string])[] }) {
  return (
    <label class="stack">
      {label}
      <select class="field" value={value} onChange={(event) => set(event.currentTarget.value)}>
        {options.map((each) => {
          const [key, name] = typeof each === "string" ? [each, each] : each;
          return (
            <option key={key} value={key}>
              {name}
            </option>
          );
        })}
      </select>
    </label>
  );
}

export function Partial({ said }: { said: string[] | undefined }) {
  if (!said || said.length === 0) return null;
  return (
    <div class="callout gap" role="status">
      <b>Not everything answered.</b> {said.join("; ")}
    </div>
  );
}
