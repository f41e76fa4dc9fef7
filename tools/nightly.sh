#!/usr/bin/env bash
# `make nightly`: what `.ci/run` leaves out, each step with its reason. All of them run, whatever fails; the last lines say
# what did. `make nightly ONLY=faults` runs one step. A step's own failures name the seed or the case with which it is repeated.
set -uo pipefail
cd "$(dirname "$0")/.."
only="${1:-}"
failed=()
known=()

step() {  # step NAME REASON COMMAND…
  local name=$1 reason=$2
  shift 2
  known+=("$name")
  if [ -n "$only" ] && [ "$only" != "$name" ]; then return; fi
  echo "== $name: not in every run, because $reason"
  if ! "$@"; then failed+=("$name"); fi
}

slow_tests() {  # without what `make compat` and `make wheels` run
  .venv/bin/python -m pytest -m "slow and not peer" tests --ignore tests/packaging --ignore tests/compat \
    --ignore tests/spark/test_query_kills.py --ignore tests/connect/distributed/test_kill.py
}

step slow "each takes a minute or more, and what they find has seldom been broken by a small change" slow_tests
step compat "clients and tools that nobody here wrote start slowly, and only a change of the protocol breaks them" make --no-print-directory compat
step wheels "each Python needs a build and a Spark of its own" make --no-print-directory wheels
step fuzz "a thousand examples of each property take an hour; every run draws fifty" make --no-print-directory fuzz
step faults "half an hour of system calls that fail, one after the other" make --no-print-directory faults
step sim "a test run has worlds enough for a change; this looks for an hour for what nobody thought of" make --no-print-directory sim SECONDS=3600
step mutations "they ask whether the tests would find a fault, which changes only as tests do; the longest step by far" make --no-print-directory mutations
step chaos "real processes under load take a minute for each fault" make --no-print-directory chaos ROUNDS=30
step chaos-streams "each round starts a Spark session" make --no-print-directory chaos-streams
step chaos-connect "two workers on Spark, a database and a store have to start, and to start again" \
  make --no-print-directory chaos-connect ROUNDS=50
step connect-cases "every failure at every step of the plainest connectors, and a real database: the sample has seldom missed one" \
  make --no-print-directory chaos-connect MODEL=1
step soak "one broker under everything at once shows leaks only in time" make --no-print-directory soak SECONDS=1800

if [ -n "$only" ] && ! printf '%s\n' "${known[@]}" | grep -qx "$only"; then
  echo "nightly: there is no step $only; the steps are ${known[*]}" >&2
  exit 2
fi
if [ ${#failed[@]} -gt 0 ]; then
  echo "nightly: FAILED: ${failed[*]}"
  exit 1
fi
echo "nightly: everything passed"
