#!/usr/bin/env bash
# Write constraints.txt: the versions in .venv, without any address.
set -euo pipefail
cd "$(dirname "$0")/.."
{
  echo "# Versions that the project is tested with; \`make install\` applies them. Renew with \`make constraints\`."
  .venv/bin/pip list --format=freeze | grep -viE '^(ottla|pip|setuptools|wheel)=='
} > constraints.txt
