"""A real YARN on loopback: Hadoop's minicluster from Maven, a resource manager and a node manager in one process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import peer

__all__ = ["fetch", "missing", "running_yarn"]

_HERE = Path(__file__).parent


def _jars() -> Path:
    return peer.cache() / "yarn"


def missing() -> str | None:
    """Return one line that says why YARN cannot run here, or None where it can."""
    if shutil.which("java") is None:
        return "Hadoop's minicluster is absent: no java on PATH"
    if not any(_jars().glob("hadoop-client-minicluster-*.jar")):
        return "Hadoop's minicluster is absent: `make peer` fetches its jars with Maven"
    return None


def fetch() -> None:
    """Resolve the jars once, 90 MB; raises CalledProcessError when Maven fails, FileNotFoundError without Maven."""
    if any(_jars().glob("hadoop-client-minicluster-*.jar")):
        return
    command = ["mvn", "-q", "-B", "-f", str(_HERE / "pom.xml"), "dependency:copy-dependencies"]
    subprocess.run([*command, f"-DoutputDirectory={_jars()}"], check=True)


@contextmanager
def running_yarn(folder: Path) -> Iterator[Path]:
    """Run YARN with its data under a folder until the block ends; yields what HADOOP_CONF_DIR is to be."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["-Xmx700m", "-XX:TieredStopAtLevel=1"]
    command = ["java", *flags, "-cp", f"{_jars()}/*", str(_HERE / "MiniYarn.java"), str(folder)]
    with (folder / "yarn.err").open("wb") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder
        )
    assert process.stdin is not None and process.stdout is not None
    try:
        if not any(line.startswith("ready") for line in process.stdout):
            raise RuntimeError(f"YARN did not start: {(folder / 'yarn.err').read_text()[-2000:]}")
        yield folder / "conf"
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
