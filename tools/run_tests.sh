#!/usr/bin/env bash
# `make test`: every test but those of `make check`, then the pure rooms once more without compiled modules.
# A failure is a failure: nothing is run a second time. A test that now and then fails shows a race, ours or its own.
set -uo pipefail
cd "$(dirname "$0")/.."
# Property tests draw new examples from a seed that is printed; with it a run draws the same again (HYPOTHESIS_SEED=n).
export HYPOTHESIS_SEED="${HYPOTHESIS_SEED:-$RANDOM$RANDOM}"
at_once() {  # one more than processors, since most tests wait for others now and then; each may need 2.5 GB
  local most=$(($(nproc) + 1)) room=2
  [ "$most" -le 4 ] || most=4  # a container's bound on memory is not seen here; TESTS_AT_ONCE says another number
  [ ! -r /proc/meminfo ] || room=$(awk '/MemAvailable/ {print int($2 / 2.5e6)}' /proc/meminfo)
  [ "${room:-2}" -ge 2 ] || room=2
  echo $((${room:-2} < most ? ${room:-2} : most))
}
AT_ONCE="${TESTS_AT_ONCE:-$(at_once)}"
SECONDS_MAX=3000  # of one pytest, which takes a third of it: where a test hangs, it would wait for ever
OUTPUT=$(mktemp)
HUNG_TESTS=$(mktemp -d)  # where tests/hangs.py says which tests hung
export HUNG_TESTS
trap 'rm -rf "$OUTPUT" "$HUNG_TESTS"' EXIT
status=0

all_tests() {
  local left_out=()
  [ $# -gt 0 ] || left_out=(--ignore=tests/test_{architecture,style,privates,generated}.py)  # `make check` has them
  # by files: what a file shares among its tests is made once
  timeout --signal=INT --kill-after=60 $SECONDS_MAX .venv/bin/python -m pytest -n $AT_ONCE --dist loadfile -m "not slow" "${left_out[@]}" "$@"
  [ $? = 0 ] || status=1
  if [ $# -eq 0 ]; then
    echo "Once more with the hot modules' Python source (OTTLA_PURE=1)"
    OTTLA_PURE=1 .venv/bin/python -m pytest -n $AT_ONCE --dist loadfile -m "not slow and not peer" tests/wire tests/log || status=1
  fi
  return $status
}

unset PYTHONDONTWRITEBYTECODE  # each process would rewrite every test's asserts, and each start of a server compile anew
.venv/bin/python tools/compile_hot.py --drop-stale
[ $# -gt 0 ] || .venv/bin/python tools/rewrite_asserts.py tests
all_tests "$@" 2>&1 | tee "$OUTPUT"
status=${PIPESTATUS[0]}
[ "$status" = 0 ] || .venv/bin/python tools/what_failed.py "$OUTPUT" "$HUNG_TESTS"
exit $status
