"""Checkpoints on this machine's disks without a process for each file.

Hadoop's local file system sets a new file's permissions through its native library, which the wheel has not, or else by
starting `chmod`: a checkpoint writes a file with a checksum beside it for each batch's begin and end and for each state
store, and each of them started one (measured: 5 ms each on a quiet machine, twenty to forty in a micro-batch with state).

`quick_local_files` puts another in its place, in the driver's JVM: permissions by `java.nio`, no checksum files. Its source
is below; Janino, with which Spark compiles its own plans, compiles it when a session begins. Other machines' executors keep
Hadoop's, which reads and writes the same files.

By `_jvm` and `_jsc`: a jar with the class would be the public way, and Ottla comes without one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ottla.spark.private_api.sessions import is_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["quick_local_files"]

log = logging.getLogger(__name__)
CLASS = "ottla.spark.QuickLocalFileSystem"
SOURCE = """
package ottla.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class QuickLocalFileSystem extends LocalFileSystem {
  public QuickLocalFileSystem() {
    super(new Raw());
    setWriteChecksum(false);
  }

  public static class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission wanted) throws IOException {
      if (wanted.getStickyBit()) {
        super.setPermission(path, wanted);
        return;
      }
      String text = wanted.getUserAction().SYMBOL + wanted.getGroupAction().SYMBOL + wanted.getOtherAction().SYMBOL;
      Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
    }
  }
}
"""


def quick_local_files(spark: SparkSession) -> bool:
    """Let a session's JVM write local files without starting processes; returns whether it does.

    A JVM that cannot (no POSIX file system, no Janino, a remote session) goes on with Hadoop's own.
    """
    if not is_classic(spark):
        return False
    try:
        return _installed(spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration())
    except Exception as error:  # Py4J's, for anything that Java throws: nothing depends on this but time
        log.warning("local files are written by Hadoop's own, slower file system: %s", error)
        return False


def _installed(jvm: Any, configuration: Any) -> bool:
    if configuration.get("fs.file.impl"):
        return False  # somebody has chosen another one
    root = jvm.java.net.URI("file:///")
    files = jvm.org.apache.hadoop.fs.FileSystem
    present = files.get(root, configuration)
    if present.getClass().getName() == CLASS:
        return True
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(configuration.getClassLoader())
    compiler.cook(SOURCE)
    chosen = jvm.org.apache.hadoop.conf.Configuration(configuration)
    chosen.setClassLoader(compiler.getClassLoader())
    chosen.set("fs.file.impl", CLASS)
    present.close()  # which takes it out of the cache that every user of local files asks
    return bool(files.get(root, chosen).getClass().getName() == CLASS)
