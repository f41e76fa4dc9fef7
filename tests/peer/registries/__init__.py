"""What others ship for schema registries, from Maven Central: Confluent's Apache-licensed Java client, and Apicurio.

Confluent's own artefacts are not on Maven Central. Apache Pinot and Apache Flink ship its client inside of theirs.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests import peer

__all__ = ["APICURIO", "CONFLUENT_7_5", "CONFLUENT_7_9", "Artefact", "fetched", "java"]

FETCH_SECONDS_MAX = 300
COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.10:copy"
"""The release that copies a jar without asking for its parents, some of which are in repositories of others."""


@dataclass(frozen=True)
class Artefact:
    """Coordinates, and the name of the file."""

    coordinates: str
    file: str


CONFLUENT_7_9 = Artefact(
    "org.apache.pinot:pinot-confluent-avro:1.5.0:jar:shaded", "pinot-confluent-avro-1.5.0-shaded.jar"
)
"""Confluent's release 7.9.5, with its Avro serializers: 30 MB."""
CONFLUENT_7_5 = Artefact(
    "org.apache.flink:flink-sql-avro-confluent-registry:2.3.0", "flink-sql-avro-confluent-registry-2.3.0.jar"
)
"""Confluent's release 7.5.3, without serializers and under a prefix of Flink's: 23 MB."""
APICURIO = Artefact("io.apicurio:apicurio-registry-app:3.3.3:tar.gz:all", "apicurio-registry-app-3.3.3-all.tar.gz")
"""A registry with Confluent's interface beside its own: 159 MB."""


def fetched(artefact: Artefact) -> Path:
    """Return an artefact's file, or its folder where it is an archive; resolved once, by Maven.

    Raises FileNotFoundError without Maven, CalledProcessError or TimeoutExpired where it fails.
    """
    folder = peer.cache() / "registries"
    file = folder / artefact.file
    unpacked = folder / artefact.file.removesuffix(".tar.gz")
    if unpacked.exists():
        return unpacked
    if shutil.which("mvn") is None:
        raise FileNotFoundError("no mvn on PATH")
    command = ["mvn", "-q", "-B", COPY, f"-Dartifact={artefact.coordinates}", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True, timeout=FETCH_SECONDS_MAX, capture_output=True)
    if unpacked != file:
        part = unpacked.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        with tarfile.open(file) as archive:
            archive.extractall(part, filter="data")
        part.rename(unpacked)
        file.unlink()
    return unpacked


def java(artefact: Artefact, source: Path, *args: str) -> list[str]:
    """Return the command line of a program of one file with the classes of an artefact."""
    return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", str(fetched(artefact)), str(source), *args]
