#!/bin/sh
# as_thor.sh MOUNTPOINT COMMAND...: run a command that sees the emulated Thor of thor_sysfs.py at the real paths.
# MOUNTPOINT.over is used as scratch. A private mount namespace: nothing outside changes, and it is gone when the command ends.
exec unshare --mount --propagation private sh -c '
set -e
thor=$1
shift
mount --bind "$thor/devices" /sys/bus/platform/devices
over=$thor.over
mkdir -p "$over"
mount -t tmpfs over "$over"
mkdir "$over/up" "$over/work" "$over/shm"
mount --bind /dev/shm "$over/shm"
# the shared memory below /dev must stay the real one
mount -t overlay dev -o "lowerdir=/dev,upperdir=$over/up,workdir=$over/work" /dev
mount --bind "$over/shm" /dev/shm
for chip in gpiochip0 gpiochip1; do
    : >"/dev/$chip"
    mount --bind "$thor/dev/$chip" "/dev/$chip"
done
JETSON_TESTING_MODEL_NAME=JETSON_THOR_REFERENCE exec "$@"
' as_thor "$@"
