// Find or do: pages, topics and groups by a few letters.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { call, session } from "./api";
import { Icon, marked } from "./parts";
import { SECTIONS } from "./sections";
import { useHere } from "./state";
import type { GroupRow, Page, TopicRow } from "./types";

interface Item {
  kind: string;
  icon: string;
  name: string;
  href: string;
}

const NOWHERE = 3;

// Names that begin with what is typed come first, then those of which a word does.
function place(name: string, words: string): number {
  const at = name.toLowerCase().indexOf(words);
  return at < 0 ? NOWHERE : at === 0 ? 0 : /[^a-z0-9]/i.test(name[at - 1] ?? "") ? 1 : 2;
}

export function Palette({ close }: { close: () => void }) {
  const { cluster } = useHere();
  const [, go] = useLocation();
  const dialog = useRef<HTMLDialogElement>(null);
  const q = useSignal("");
  const at = useSignal(0);
  const found = useSignal<Item[]>([]);
  const base = `/c/${cluster}`;
  const pages: Item[] = [
    ...SECTIONS.flatMap((each) => each.pages).map((each) => ({ kind: "Go to", icon: each.icon, name: each.name, href: base + each.path })),
    { kind: "Go to", icon: "access", name: "Users", href: `${base}/access/users` },
    { kind: "Go to", icon: "access", name: "Quotas", href: `${base}/access/quotas` },
    { kind: "Go to", icon: "access", name: "May X do Y?", href: `${base}/access/check` },
    { kind: "Do", icon: "topics", name: "Create topic…", href: `${base}/topics?new=1` },
    { kind: "Do", icon: "access", name: "Give rights…", href: `${base}/access?new=1` },
    { kind: "Do", icon: "access", name: "Set a password…", href: `${base}/access/users?new=1` },
    { kind: "Do", icon: "access", name: "Set a quota…", href: `${base}/access/quotas?new=1` },
    { kind: "Do", icon: "schemas", name: "Register a schema…", href: `${base}/schemas?new=1` },
    { kind: "Do", icon: "reassign", name: "Move partitions…", href: `${base}/reassign?new=1` },
    ...(session.value?.clusters ?? []).map((each) => ({ kind: "Cluster", icon: "brokers", name: each, href: `/c/${each}` })),
  ];
  useEffect(() => {
    dialog.current?.showModal();
    const before = document.activeElement as HTMLElement | null;
    return () => before?.focus();
  }, []);
  useEffect(() => {
    const wanted = q.value.trim();
    at.value = 0;
    if (!wanted) {
      found.value = [];
      return undefined;
    }
    const abort = new AbortController();
    const ask = `q=${encodeURIComponent(wanted)}&limit=8`;
    const timer = setTimeout(() => {
      void Promise.all([
        call<Page<TopicRow>>(`/api${base}/topics?${ask}&internal=true`, { signal: abort.signal }),
        call<Page<GroupRow>>(`/api${base}/groups?${ask}`, { signal: abort.signal }),
      ])
        .then(([topics, groups]) => {
          found.value = [
            ...topics.items.map((each) => ({ kind: "Topic", icon: "topics", name: each.name, href: `${base}/topics/${encodeURIComponent(each.name)}/messages` })),
            ...groups.items.map((each) => ({ kind: "Group", icon: "groups", name: each.name, href: `${base}/groups/${encodeURIComponent(each.name)}` })),
          ];
        })
        .catch(() => undefined);
    }, 60);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [q.value]);
  const words = q.value.trim().toLowerCase();
  const items = [...pages, ...found.value].filter((each) => place(each.name, words) < NOWHERE).sort((one, other) => place(one.name, words) - place(other.name, words));
  const choose = (item: Item | undefined) => {
    if (!item) return;
    close();
    go(item.href);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at.value = Math.min(items.length - 1, Math.max(0, at.value + (event.key === "ArrowDown" ? 1 : -1)));
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(items[at.value]);
    }
  };
  return (
    <dialog
      ref={dialog}
      class="dialog palette"
      aria-label="Find or do"
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <div class="pin">
        <Icon name="find" />
        <input
          class="bare q"
          autofocus
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={items[at.value] ? `palette-${at.value}` : undefined}
          aria-label="Find or do"
          placeholder="a topic, a group, a page"
          value={q.value}
          onInput={(event) => (q.value = event.currentTarget.value)}
          onKeyDown={keys}
        />
      </div>
      <div id="palette-list" role="listbox" aria-label="Found">
        {items.slice(0, 20).map((each, index) => (
          <div key={each.href + each.kind} id={`palette-${index}`} class="pi" role="option" aria-selected={index === at.value} onClick={() => choose(each)}>
            <Icon name={each.icon} />
            <span class="clip">{marked(each.name, [words])}</span>
            <span class="dim last">{each.kind}</span>
          </div>
        ))}
        {items.length === 0 && <div class="pi dim">Nothing has that name.</div>}
      </div>
      <div class="pf">
        <span>↑ ↓ choose</span>
        <span>Enter open</span>
        <span>Esc close</span>
      </div>
    </dialog>
  );
}
