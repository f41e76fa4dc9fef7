#!/usr/bin/env bash
# Prepare .venv: pinned packages, compiled hot modules where a C compiler is found, and a Java for Spark.
# `install.sh demo` leaves out what `make demo` does not need, and compiles nothing: the demo begins that beside itself.
set -euo pipefail
cd "$(dirname "$0")/.."
group=${1:-all}

# uv compiles nothing; where no process may write bytecode, every start would compile what it imports
compile_all() { .venv/bin/python -m compileall -q -j 0 .venv/lib/python*/site-packages >/dev/null 2>&1 || true; }

say() { printf '%s\n' "$*"; }
as_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
apt_updated=
apt_install() {
  if [ -z "$apt_updated" ]; then apt-get update -qq >/dev/null && apt_updated=1; fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1
}

find_python() {
  for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

python=$(find_python) || { say "Ottla needs Python 3.11 or later: install it (Debian, Ubuntu: apt-get install python3 python3-venv), or set PYTHON=/path/to/python3"; exit 1; }

make_venv() { "$python" -m venv .venv >/dev/null 2>&1; }
if [ ! -x .venv/bin/pip ]; then
  say "Creating .venv with $("$python" --version)"
  if ! make_venv; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if as_root; then
      say "Installing python$version-venv"
      apt_install "python$version-venv"
    fi
    make_venv || { say "Python cannot make a virtual environment: apt-get install python$version-venv, then run make again"; exit 1; }
  fi
fi

.venv/bin/python tools/packages.py "$PWD/.venv/bin/python" "$group"

if [ "$group" = all ]; then
  .venv/bin/python tools/compile_hot.py
  if [ -n "${PYTHONDONTWRITEBYTECODE:-}" ]; then say "Compiling the packages' bytecode"; compile_all; fi
fi
.venv/bin/python -m compileall -q -j 0 src/ottla  # so that no start compiles sources, whatever PYTHONDONTWRITEBYTECODE says

java_major() { "$1" -version 2>&1 | sed -nE '1s/.*version "([0-9]+).*/\1/p'; }
java_found() {
  for candidate in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java; do
    if command -v "$candidate" >/dev/null; then
      major=$(java_major "$candidate")
      [ "${major:-0}" -ge 17 ] && return 0
    fi
  done
  return 1
}
if ! java_found; then
  if as_root; then
    for package in openjdk-21-jre-headless openjdk-17-jre-headless default-jre-headless; do
      say "Installing $package for Spark"
      if apt_install "$package" && java_found; then break; fi
    done
  fi
  java_found || say "Spark needs Java 17 or later, and none was found: apt-get install openjdk-17-jre-headless (the broker and its tools run without it)"
fi

touch .venv/.installed-demo
if [ "$group" = all ]; then touch .venv/.installed; fi
