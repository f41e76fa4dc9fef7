#!/bin/sh
# The command of Kafka's that this file is named after; `run` beside it starts Ottla.
exec "$(dirname "$(readlink -f "$0")")/run" "$0" "$@"
