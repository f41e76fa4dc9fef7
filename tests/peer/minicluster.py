"""Hadoop's minicluster from Maven: one of its services in a Java process on loopback."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import peer

__all__ = ["MiniCluster"]


@dataclass(frozen=True)
class MiniCluster:
    """A service that `program` runs, which lies in `home` beside the `pom.xml` of its jars."""

    name: str
    home: Path
    program: str
    memory: str
    """The JVM's option for its heap."""
    stop_seconds_max: float

    @property
    def _jars(self) -> Path:
        return peer.cache() / self.name.lower()

    def missing(self) -> str | None:
        """Return one line that says why it cannot run here, or None where it can."""
        if shutil.which("java") is None:
            return "Hadoop's minicluster is absent: no java on PATH"
        if not any(self._jars.glob("hadoop-client-minicluster-*.jar")):
            return "Hadoop's minicluster is absent: `make peer` fetches its jars with Maven"
        return None

    def fetch(self) -> None:
        """Resolve the jars once, 90 MB; raises CalledProcessError when Maven fails, FileNotFoundError without Maven."""
        if any(self._jars.glob("hadoop-client-minicluster-*.jar")):
            return
        command = ["mvn", "-q", "-B", "-f", str(self.home / "pom.xml"), "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={self._jars}"], check=True)

    @contextmanager
    def running(self, folder: Path) -> Iterator[str]:
        """Run it with its data under a folder until the block ends; yields the line with which it says that it is ready."""
        folder.mkdir(parents=True, exist_ok=True)
        said = folder / f"{self.name.lower()}.err"
        flags = [self.memory, "-XX:TieredStopAtLevel=1"]
        command = ["java", *flags, "-cp", f"{self._jars}/*", str(self.home / self.program), str(folder)]
        with said.open("wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder
            )
        assert process.stdin is not None and process.stdout is not None
        try:
            ready = next((line for line in process.stdout if line.startswith("ready")), None)
            if ready is None:
                raise RuntimeError(f"{self.name} did not start: {said.read_text()[-2000:]}")
            yield ready
        finally:
            process.stdin.close()
            try:
                process.wait(self.stop_seconds_max)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
