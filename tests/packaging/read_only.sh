#!/bin/sh
# read_only.sh DATA HOME PREFIX COMMAND…: run a command as user 10001 without any privilege, in a mount namespace of its own in
# which nothing can be written but the folder DATA. HOME is a folder that others may not enter and that the interpreter's
# PREFIX lies in, or empty. Needs root; run it under `unshare --mount`.
set -eu
data=$1 home=$2 prefix=$3
shift 3

mount --make-rprivate /
mount --bind "$data" "$data"
if [ -n "$home" ]; then
  kept=$(mktemp -d -p "$(dirname "$data")")  # goes with the data
  mount --bind "$prefix" "$kept"
  mount -t tmpfs -o mode=755 tmpfs "$home"
  mkdir -p "$prefix"
  mount --bind "$kept" "$prefix"
  mount -o remount,ro "$home"
fi
# every file system but those of the kernel, as in a container; /dev/shm stays, as there
for folder in $(awk '$3 !~ /^(proc|sysfs|devtmpfs|devpts|mqueue|cgroup2?)$/ { print $2 }' /proc/self/mounts); do
  case $folder in "$data" | /dev/* | /proc/* | /sys/*) continue ;; esac
  mount -o remount,bind,ro "$folder"
done
exec setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
