#!/bin/sh
# What a container of a Connect worker runs: `ottla` with its arguments; or, in a pod that Spark has made for a worker
# (`executor`), one of Spark's executors, from the variables that Spark gives such pods.
set -eu
here=$(dirname "$0")
if [ "${1:-}" != executor ]; then
  exec "$here/ottla" "$@"
fi
set --
number=0
while eval "option=\${SPARK_JAVA_OPT_$number-}" && [ -n "$option" ]; do
  set -- "$@" "$option"
  number=$((number + 1))
done
jars=$("$here/python3" -c 'import os, pyspark; print(os.path.join(os.path.dirname(pyspark.__file__), "jars"))')
export PATH="$here:$PATH"
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "$SPARK_CONF_DIR:$jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
