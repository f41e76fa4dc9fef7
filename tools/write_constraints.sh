#!/usr/bin/env bash
# Write constraints.txt: the versions in .venv, without any address.
set -euo pipefail
cd "$(dirname "$0")/.."
kept=$(grep -E '^(decorator|gssapi|uv)==' constraints.txt || true)  # extra `kerberos`, and uv: not in every .venv
{
  echo "# Versions that the project is tested with; \`make install\` applies them. Renew with \`make constraints\`."
  { .venv/bin/pip list --format=freeze | grep -viE '^(ottla|pip|setuptools|wheel|decorator|gssapi|uv)=='
    echo "$kept"; } | LC_ALL=C sort -f -t= -k1,1
} > constraints.txt
