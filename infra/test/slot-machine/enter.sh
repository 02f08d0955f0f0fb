#!/bin/bash
# A machine of its own: `enter.sh <folder> <loop device> <command…>`, run by `unshare` as the first process of
# new process and mount namespaces. Its root is <folder>/root with this machine's /usr below it, read
# only; whatever the command does to files, mounts and processes stays inside, and ends with it.
set -euo pipefail
folder=$1 device=$2
shift 2
root=$folder/root
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p "$root"/{usr,etc/systemd/system,dev,proc,sys,run,tmp,var/lib,var/spool,outside,root} \
  "$folder/local/"{bin,sbin}
for name in bin sbin lib lib64; do
  if [ -L "/$name" ] && [ ! -L "$root/$name" ]; then ln -s "usr/$name" "$root/$name"; fi
done
cp -f "$here"/bin/* "$folder/local/bin/"
if [ ! -e "$root/etc/passwd" ]; then
  echo 'root:x:0:0:root:/root:/bin/bash' >"$root/etc/passwd"
  echo 'root:x:0:' >"$root/etc/group"
  touch "$root/etc/"{shadow,gshadow}
  cp -a /etc/alternatives /etc/ld.so.cache /etc/login.defs "$root/etc/"
fi
mount --rbind /usr "$root/usr"
mount -o remount,bind,ro "$root/usr"
mount --bind "$folder/local" "$root/usr/local"
mount --bind "$folder/outside" "$root/outside"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
for node in 'null 3' 'zero 5' 'full 7' 'random 8' 'urandom 9'; do
  mknod -m 0666 "$root/dev/${node% *}" c 1 "${node#* }"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mknod -m 0600 "$root/dev/${device##*/}" b 7 "${device##*loop}"
mkdir -p "$root/dev/disk/by-id"
# What the kernel would show at this boot of a volume that is attached already.
for volume in "$folder"/outside/volumes/*; do
  if [ "$(cat "$volume/holder" 2>/dev/null)" = "$(cat "$folder/outside/instance")" ]; then
    id=${volume##*/}
    ln -s "$device" "$root/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${id/-/}"
  fi
done
echo "$device" >"$folder/outside/device"
exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root "$@"
