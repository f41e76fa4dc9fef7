// What every page shares: the cluster of the address, its socket, what is loaded, and the parts of the address behind `?`.
import { signal, useSignal } from "@preact/signals";
import { createContext } from "preact";
import { useCallback, useContext, useEffect, useMemo, useRef } from "preact/hooks";
import { useLocation, useSearch } from "wouter-preact";
import { ApiError, call, noted, taken, type Live } from "./api";

export interface Here {
  cluster: string;
  live: Live;
}

export const HereContext = createContext<Here>(null as unknown as Here);
export const useHere = (): Here => useContext(HereContext);

// Counts samples: pages that show figures load them anew with each.
export const tick = signal(0);
export const sampled = signal<{ at: number | null; period: number; error: string | null }>({ at: null, period: 5, error: null });

export interface Loaded<T> {
  data: T | null;
  error: string;
  status: number;
  loading: boolean;
  again: () => void;
}

export function useLoaded<T>(path: string, followed = true): Loaded<T> {
  const came = useMemo(() => noted(taken<T>(path)), []);
  const data = useSignal<T | null>(came);
  const error = useSignal("");
  const status = useSignal(came === null ? 0 : 200);
  const loading = useSignal(came === null);
  const shown = useRef(came === null ? "" : path);
  const isGiven = useRef(came !== null);
  const load = useCallback(
    (abort?: AbortSignal) => {
      if (shown.current !== path) {
        data.value = null;
        loading.value = true;
        shown.current = path;
      }
      call<T>(path, abort ? { signal: abort } : {})
        .then((answer) => {
          data.value = answer;
          error.value = "";
          status.value = 200;
          loading.value = false;
        })
        .catch((cause: unknown) => {
          if (abort?.aborted) return;
          error.value = (cause as Error).message;
          status.value = cause instanceof ApiError ? cause.status : 0;
          loading.value = false;
        });
    },
    [path],
  );
  const version = followed ? tick.value : 0;
  useEffect(() => {
    if (isGiven.current) {
      isGiven.current = false;
      return undefined;
    }
    const abort = new AbortController();
    load(abort.signal);
    return () => abort.abort();
  }, [load, version]);
  return { data: data.value, error: error.value, status: status.value, loading: loading.value, again: () => load() };
}

// One name behind `?`, kept in the address, so that any view is a link. `replace` leaves no step in the history.
export function useParam(name: string, fallback = ""): [string, (value: string, replace?: boolean) => void] {
  const search = useSearch();
  const [path, go] = useLocation();
  const value = new URLSearchParams(search).get(name) ?? fallback;
  const set = useCallback(
    (next: string, replace = true) => {
      const params = new URLSearchParams(location.search);
      if (next === fallback) params.delete(name);
      else params.set(name, next);
      const query = params.toString();
      go(path + (query ? `?${query}` : ""), { replace });
    },
    [path, name, fallback, go],
  );
  return [value, set];
}
