#!/bin/sh
# What the image is made of: build.sh SOURCES TARGET [EXTRAS]. Makes an environment in the folder TARGET with Ottla, compiled,
# its pinned packages and the extras that are named (`connect`, `all`). The Dockerfile runs it, and a test in an empty folder.
set -eu
sources=$1 target=$2 extras=${3:-}
python=${PYTHON:-python3}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# setuptools leaves its files beside the sources, which may be read-only and are nobody's to change
mkdir "$work/sources" "$work/sources/tools" "$work/wheel"
(cd "$sources" && cp -R src pyproject.toml setup.py README.md LICENSE constraints.txt "$work/sources")
cp "$sources/tools/compile_hot.py" "$work/sources/tools"
find "$work/sources/src" -name '*.so' -delete

"$python" -m venv "$target"
OTTLA_COMPILE=1 "$target/bin/pip" wheel --quiet --no-deps --wheel-dir "$work/wheel" "$work/sources"
"$target/bin/pip" install --quiet --no-cache-dir -c "$work/sources/constraints.txt" "$(echo "$work"/wheel/ottla-*.whl)${extras:+[$extras]}"
"$target/bin/python" -m compileall -q "$target/lib"  # the root will be read-only, and nothing is to be compiled at a start
install -m 755 "$sources/packaging/image/serve.sh" "$target/bin/ottla-serve"
install -m 755 "$sources/packaging/image/work.sh" "$target/bin/ottla-work"
"$target/bin/ottla" --version
