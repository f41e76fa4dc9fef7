#!/usr/bin/env bash
# `make test`: generated files are current, then every test, then the pure rooms once more without compiled modules.
set -uo pipefail
cd "$(dirname "$0")/.."
status=0
# by files: what a file shares among its tests is made once, and the peer's ports are fixed by file
.venv/bin/python tools/compile_hot.py --drop-stale
.venv/bin/python -m pytest -n 2 --dist loadfile -m "not slow" "$@" || status=$?
if [ $# -eq 0 ]; then
  echo "Once more with the hot modules' Python source (OTTLA_PURE=1)"
  OTTLA_PURE=1 .venv/bin/python -m pytest -n 2 --dist loadfile -m "not slow and not peer" tests/wire tests/log || status=$?
fi
exit $status
