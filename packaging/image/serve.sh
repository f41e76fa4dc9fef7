#!/bin/sh
# What a container runs: the broker, from settings in the environment (`KAFKA_…`, as in Apache's image) and arguments of
# `ottla server start`. With CLUSTER_ID set, folders that are new get that identity first; a broker alone needs none.
set -eu
here=$(dirname "$0")
if [ -n "${CLUSTER_ID:-}" ]; then
  "$here/ottla" storage format --ignore-formatted --cluster-id "$CLUSTER_ID" --config "${OTTLA_CONFIG:-/dev/null}"
fi
# exec, so that signals reach the broker itself
exec "$here/ottla" server start ${OTTLA_CONFIG:+"$OTTLA_CONFIG"} "$@"
