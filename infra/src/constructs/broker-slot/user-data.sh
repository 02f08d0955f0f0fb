# The life of one broker slot's instance, on Amazon Linux 2023 with nothing downloaded but the broker.
#
# cloud-init runs this once per instance (`install`). systemd runs the installed copy from then on:
# `prepare` at each boot, `backoff` before each start of the broker, `ended` after each of its ends, `tick`
# each minute. Every step checks before it acts, so each may be repeated, or interrupted at any point.
#
# A slot's volume holds the write-ahead log, with acknowledged records that are not uploaded yet, and the
# metadata, which says what the objects mean. So a device is formatted only if it has no signature AND the bucket
# is empty, or the loss of a recovery from the bucket was approved. In any other case the script stops and
# reports what it found: a slot that does not start loses nothing.
#
# Lines that begin with `#:` are for a slot of several, which share their metadata in a database; what is between `#{` and
# `#}` is for a slot that is the only one.
set -euo pipefail
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export AWS_DEFAULT_REGION="$REGION" AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=5 AWS_PAGER=''

SELF=/usr/local/sbin/millrace-slot
VOLUME=/var/lib/millrace
#{ single
# Exists from a broker's exit with 65 until its recovery; its text is the id of that loss.
LOSS=$VOLUME/loss
#}
RUN=/run/millrace
ETC=/etc/millrace
#: # In memory, because the settings have the password of the metadata database.
#: ETC=$RUN/etc
#: # Linux before 6.6 lets nobody else reserve a device.
#: CAPABILITIES=
#: [ "$WAL_FENCE" = detach ] || printf '6.6\n%s\n' "$(uname -r)" | sort -CV || CAPABILITIES=CAP_SYS_ADMIN
OPT=/opt/millrace
SPOOL=/var/spool/millrace
# The same on every instance, since files on the volume carry it from one to the next.
BROKER_UID=1644
#{ single
# How often, every five seconds, a volume may be found with an instance that is being ended.
ATTACH_MAX=120
# How often, every second, a device may be missing that is attached.
DEVICE_MAX=60
#}
# Attempts at a call whose permission may be seconds old; with AWS_MAX_ATTEMPTS inside each.
CALL_MAX=10
#{ single
# A fresh volume is all zeros. Every file system, partition table, RAID and write-ahead log has a signature in
# its first or last bytes.
HEAD_MIB=16
TAIL_MIB=1
#}

say() { echo "millrace-slot: $*" >&2; }
die() {
  say "REFUSED: $*"
  exit 1
}

# Repeats a command that may fail for a while: `insist <what for> <command…>`.
insist() {
  local what=$1 attempt
  shift
  for ((attempt = 1; attempt <= CALL_MAX; attempt++)); do
    "$@" && return 0
    say "$what failed (attempt $attempt of $CALL_MAX)"
    sleep "$((attempt < 6 ? attempt * 2 : 10))"
  done
  return 1
}

# The instance's own metadata, by session token only.
metadata() {
  local token
  token=$(curl -sSf -m 2 --retry 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \
    http://169.254.169.254/latest/api/token) || return 1
  curl -sSf -m 2 --retry 5 -H "X-aws-ec2-metadata-token: $token" \
    "http://169.254.169.254/latest/meta-data/$1"
}

aws_api() { aws --cli-connect-timeout 5 --cli-read-timeout 60 --output text "$@"; }

# ---------------------------------------------------------------------------------------------------
# The volume

list_volumes() {
  aws_api ec2 describe-volumes --query 'Volumes[].VolumeId' --filters \
    "Name=tag:millrace:cluster,Values=$CLUSTER_ID" "Name=tag:millrace:slot,Values=$SLOT" \
    Name=status,Values=creating,available,in-use
}

find_volume() {
  local found ids
  found=$(insist 'finding the volume' list_volumes) || die 'the volume cannot be found; check' \
    'the role (ec2:DescribeVolumes) and the endpoint of EC2'
  read -r -d '' -a ids <<<"$found" || true
  [ "${#ids[@]}" = 1 ] || die "${#ids[@]} volumes carry the tags of cluster $CLUSTER_ID slot $SLOT;" \
    "exactly one must: ${found:-none}"
  echo "${ids[0]}"
}

#: # Each io2 log volume of the zone, so that any broker there can take over a log: a reservation on its device says who writes.
#: # A volume of another type is brought by the broker itself, from whoever has it.
#: attach_shared() {
#:   [ "$WAL_FENCE" = reservation ] || return 0
#:   local instance found volume slot letters=fghijklmn
#:   instance=$(metadata instance-id) || return 1
#:   found=$(aws_api ec2 describe-volumes --query \
#:     "Volumes[?!contains(Attachments[].InstanceId, '$instance')].[VolumeId,Tags[?Key=='millrace:slot']|[0].Value]" \
#:     --filters "Name=tag:millrace:cluster,Values=$CLUSTER_ID" Name=tag:millrace:volume,Values=wal \
#:     "Name=availability-zone,Values=$RACK" Name=status,Values=available,in-use) || return 1
#:   while read -r volume slot; do
#:     [ -n "$volume" ] || continue
#:     aws_api ec2 attach-volume --volume-id "$volume" --instance-id "$instance" \
#:       --device "/dev/sd${letters:slot-1:1}" >/dev/null || return 1
#:   done <<<"$found"
#: }
#: # The broker opens log volumes, its own and those that it takes over. The system's disk has partitions.
#: own_devices() {
#:   cat >/etc/udev/rules.d/90-millrace.rules <<'EOF'
#:SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_MODEL}=="Amazon?Elastic?Block?Store*", ENV{ID_PART_TABLE_TYPE}=="", OWNER="millrace"
#:EOF
#:   udevadm control --reload
#:   udevadm trigger --subsystem-match=block
#: }
#{ single
attach_volume() {
  local volume=$1 instance=$2 attempt answer state holder
  for ((attempt = 1; attempt <= ATTACH_MAX; attempt++)); do
    answer=$(aws_api ec2 describe-volumes --volume-ids "$volume" \
      --query 'Volumes[0].[State,Attachments[0].InstanceId]') || answer='unknown None'
    read -r state holder <<<"$answer"
    [ "$holder" != "$instance" ] || return 0
    if [ "$state" = available ]; then
      aws_api ec2 attach-volume --volume-id "$volume" --instance-id "$instance" \
        --device /dev/sdf >/dev/null || say "$volume was not attached; trying again"
    else
      # Never by force: the other instance may still write.
      say "$volume is $state, held by $holder; waiting until it is free"
    fi
    sleep 5
  done
  die "$volume is still $state, held by $holder; end that instance or detach it"
}

# By the volume's id, which the NVMe controller tells as its serial number: names such as
# /dev/nvme1n1 change from boot to boot.
find_device() {
  local link=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${1/-/} attempt
  for ((attempt = 1; attempt <= DEVICE_MAX; attempt++)); do
    if [ -b "$link" ]; then
      readlink -f "$link"
      return 0
    fi
    sleep 1
  done
  die "$1 is attached, but $link did not appear; is this a Nitro instance?"
}

# The file system's id says whose it is, from the same write that makes it one.
slot_uuid() {
  local sum
  sum=$(printf 'millrace:%s:%s' "$CLUSTER_ID" "$SLOT" | sha256sum)
  echo "${sum:0:8}-${sum:8:4}-8${sum:13:3}-8${sum:17:3}-${sum:20:12}"
}

is_zero() { # device, first MiB, MiBs
  local others
  others=$(dd if="$1" bs=1M skip="$2" count="$3" iflag=fullblock status=none | tr -d '\0' | wc -c) &&
    [ "$others" = 0 ]
}

# Silent where the device is blank; else says what was found, and is false.
is_blank() {
  local device=$1 code=0 bytes mib signs
  bytes=$(blockdev --getsize64 "$device") || return 1
  mib=$((bytes >> 20))
  if ((mib < HEAD_MIB + TAIL_MIB)); then
    say "$device has $bytes bytes: too few for a log"
    return 1
  fi
  blkid -p "$device" >/dev/null || code=$?
  # 2 is "nothing there"; anything else is something, or more than one thing, or an error.
  if [ "$code" != 2 ]; then
    say "$device holds $(blkid -p -o value -s TYPE "$device" || echo 'something') (blkid: $code)"
    return 1
  fi
  signs=$(wipefs -n "$device") || signs='what wipefs cannot read'
  if [ -n "$signs" ]; then
    say "$device holds $signs"
    return 1
  fi
  if ! is_zero "$device" 0 "$HEAD_MIB" ||
    ! is_zero "$device" "$((mib - TAIL_MIB))" "$TAIL_MIB"; then
    say "$device holds bytes that are not zero"
    return 1
  fi
}

# With this prefix, at most 1.
count_objects() {
  aws_api s3api list-objects-v2 --bucket "$DATA_BUCKET" --prefix "$1" --max-keys 1 --query KeyCount
}

has_objects() {
  local count
  count=$(insist 'listing the bucket' count_objects "$1") ||
    die "$DATA_BUCKET cannot be listed; check the role"
  [ "$count" != 0 ]
}

format() {
  local device=$1
  if has_objects ''; then
    has_objects "meta/nodes/$SLOT/log/" || die "the volume is blank, but $DATA_BUCKET holds data and no" \
      "metadata of this node; restore that volume from a snapshot, with the same tags"
    await_approval 'the volume was lost: it is blank, and the bucket knows this node'
  fi
  say "$device is blank: formatting"
  mkfs.xfs -q -K -m "uuid=$(slot_uuid)" "$device"
  sync "$device"
}

# ---------------------------------------------------------------------------------------------------
# Lost metadata
#
# Either the bucket knows this node and its volume is blank: what only the lost volume had is gone. Or the
# volume is intact, but the broker exited with 65, because its metadata is blank or older than its log.
# The slot writes what a recovery would bring back to `report` below $RECOVERY and stops; systemd repeats
# `prepare` each 30 s. The operation `cluster.recover` shows the report and, once that is approved, puts
# `approved` beside it. Each volume, and each loss on an intact volume, has a folder of its own there, so
# an approval holds for one loss.

# As the broker, whose files it writes.
recover() {
  setpriv --reuid millrace --regid millrace --clear-groups "$OPT/current/millrace" recover \
    --config "$ETC/server.properties" "$@"
}

put_report() {
  aws_api s3api put-object \
    --bucket "$DATA_BUCKET" --key "$RECOVERY/report" --body "$RUN/report" >/dev/null
}

await_approval() {
  ! has_objects "$RECOVERY/approved" || return 0
  if ! has_objects "$RECOVERY/report"; then
    # Of a blank volume, which is not mounted, the report is of what the bucket has.
    make_folders
    write_properties
    recover --dry-run --json >"$RUN/report" || die "the backup in $DATA_BUCKET is not readable"
    insist 'writing the report' put_report
  fi
  die "$1; recover the cluster"
}

# Before the first start of the broker, and after each loss. The marker `recovered` says that the approval to
# format this volume was used: what is lost later needs another one. Interrupted, the recovery is repeated.
recover_volume() {
  if [ -s "$LOSS" ]; then
    RECOVERY+=/$(cat "$LOSS")
    await_approval "the broker's metadata was lost"
  elif [ -e "$VOLUME/recovered" ] || ! has_objects "$RECOVERY/approved"; then
    touch "$VOLUME/recovered"
    return
  fi
  say 'recovering, as approved'
  recover --yes || die 'the recovery failed'
  touch "$VOLUME/recovered"
  rm -f "$LOSS"
  sync "$VOLUME"
}

# After each end of the broker. With 65 the next start would find the same.
ended() {
  [ "${EXIT_STATUS:-}" = 65 ] || return 0
  cat /proc/sys/kernel/random/uuid >"$LOSS"
  systemctl --no-block restart millrace-slot
}

marker_text() { printf 'cluster=%s\nslot=%s\n' "$CLUSTER_ID" "$SLOT"; }

# The marker is for people and for volumes that were copied by hand; the file system's id came first.
check_marker() {
  local marker=$VOLUME/slot
  if [ ! -e "$marker" ]; then
    [ -z "$(find "$VOLUME" -mindepth 1 ! -path "$marker.new" -print -quit)" ] || {
      umount "$VOLUME"
      die "the volume holds files but no marker of its slot"
    }
    marker_text >"$marker.new"
    sync "$marker.new"
    mv "$marker.new" "$marker"
    sync "$VOLUME"
  elif [ "$(cat "$marker")" != "$(marker_text)" ]; then
    local found
    found=$(tr '\n' ' ' <"$marker")
    umount "$VOLUME"
    die "the volume belongs to $found, not to cluster $CLUSTER_ID slot $SLOT"
  fi
}

#}
make_folders() { install -d -m 0700 -o millrace -g millrace "$VOLUME"/{wal,data}; }

#{ single
mount_volume() {
  local device=$1 type uuid
  install -d -m 0755 "$VOLUME"
  if mountpoint -q "$VOLUME"; then
    [ "$(findmnt -no SOURCE "$VOLUME")" = "$device" ] ||
      die "$VOLUME is another device's mount; unmount it"
  else
    type=$(blkid -p -o value -s TYPE "$device") || type=
    if [ "$type" != xfs ]; then
      is_blank "$device" || die "$device is neither blank nor this slot's; if nothing on it is" \
        'needed, overwrite it with zeros'
      format "$device"
    fi
    uuid=$(blkid -p -o value -s UUID "$device")
    [ "$uuid" = "$(slot_uuid)" ] || die "the file system of $device, $uuid, belongs to another" \
      "cluster or slot; this slot's is $(slot_uuid)"
    # The device whose id was just read, not "the one with this id": there may be a copy.
    mount -t xfs -o nodev,noexec,nosuid,noatime "$device" "$VOLUME" ||
      die "$device does not mount; restore it from a snapshot, or repair a copy"
  fi
  check_marker
  grow
  make_folders
}

# Takes what the volume grew by, while it is in use. Nothing happens where it did not grow.
grow() {
  if mountpoint -q "$VOLUME"; then xfs_growfs -d "$VOLUME" >/dev/null; fi
}

#}
# ---------------------------------------------------------------------------------------------------
# The broker

is_broker() { [ "$(sha256sum <"$1")" = "$BROKER_SHA256  -" ]; }

# Kept by checksum, so that a reboot downloads nothing.
fetch_broker() {
  local folder=$OPT/$BROKER_SHA256 program next
  program=$folder/millrace next=$folder/.next
  install -d -m 0755 "$OPT" "$folder"
  if [ ! -f "$program" ] || ! is_broker "$program"; then
    rm -f "$program" "$next"
    insist 'fetching the broker' aws_api s3api get-object \
      --bucket "$BROKER_BUCKET" --key "$BROKER_KEY" "$next" >/dev/null ||
      die "s3://$BROKER_BUCKET/$BROKER_KEY cannot be read; check the role and the endpoint"
    is_broker "$next" || {
      rm -f "$next"
      die "s3://$BROKER_BUCKET/$BROKER_KEY does not have the SHA-256 $BROKER_SHA256"
    }
    chmod 0755 "$next"
    sync "$next"
    mv "$next" "$program"
  fi
  ln -sfn "$folder" "$OPT/current"
}

# The credential of the control link, which the broker reads each time it dials the gateway. Each apply issues
# another one. In memory only: the root volume outlives no instance, but may be copied.
refresh_link() {
  local file=$RUN/link.credential credential
  credential=$(aws_api secretsmanager get-secret-value \
    --secret-id "$LINK_SECRET" --query SecretString)
  [[ $credential == mlk_* ]] || { say "the secret $LINK_SECRET holds no credential"; return 1; }
  [ "$credential" != "$(cat "$file" 2>/dev/null)" ] || return 0
  install -m 0600 -o millrace -g millrace /dev/null "$file.new"
  printf '%s\n' "$credential" >"$file.new"
  mv "$file.new" "$file"
}

# A log that exists keeps its capacity, whatever the settings ask for: the broker refuses to open it
# with another, since positions in its ring follow from it.
#{ single
wal_capacity() {
  local wal=$VOLUME/wal/wal size
  size=$(stat -c %s "$wal" 2>/dev/null) || size=0
  if [ "$size" = 0 ]; then
    echo "$WAL_CAPACITY_BYTES"
    return
  fi
  [ "$size" = "$WAL_CAPACITY_BYTES" ] ||
    say "the write-ahead log keeps its $size bytes ($WAL_CAPACITY_BYTES requested)"
  echo "$size"
}

#}
#: # With the password; the stack writes it when it makes the database.
#: metadata_url() {
#:   aws_api secretsmanager get-secret-value --secret-id "$METADATA_SECRET" --query SecretString
#: }
write_properties() {
  local capacity next=$ETC/new.properties
#:   local url address
#:   url=$(insist 'reading where the metadata is' metadata_url) ||
#:     die "the secret $METADATA_SECRET cannot be read; check the role and the endpoint"
#:   [[ $url == postgres://* ]] || die "the secret $METADATA_SECRET has no address of a database"
#:   address=$(metadata local-ipv4) || die 'the address of the instance cannot be read'
#:   WAL_PARAMETERS+="&fence=$WAL_FENCE&volume=$(cat "$RUN/volume")"
#:   # The log has the volume for itself, and all of it.
#:   capacity=0
#{ single
  capacity=$(wal_capacity)
#}
  install -d -m 0755 "$ETC"
#:   printf '%s\n' "$DATABASE_AUTHORITY" >"$ETC/database-ca.pem"
  install -m 0640 -g millrace /dev/null "$next"
  cat >"$next" <<EOF
node.id=$SLOT
cluster.id=$CLUSTER_ID
listeners=PLAINTEXT://0.0.0.0:$KAFKA_PORT
advertised.listeners=PLAINTEXT://$ADVERTISED_HOST:$ADVERTISED_PORT
control.link.address=$LINK_ADDRESS
control.link.credential.file=$RUN/link.credential
data.dir=$VOLUME/data
shutdown.drain.ms=20000
s3.wal.path=0@file://$VOLUME/wal/wal?capacity=$capacity$WAL_PARAMETERS
s3.data.buckets=0@$DATA_BUCKET_URI
#:broker.rack=$RACK
#:inter.broker.listener=$address:$INTER_BROKER_PORT
#:metadata.database.url=$url
$PROPERTIES
EOF
  "$OPT/current/millrace" broker --check --config "$next" >/dev/null ||
    die 'the broker does not take these settings'
  mv "$next" "$ETC/server.properties"
}

ensure_user() {
  getent group millrace >/dev/null || groupadd --system --gid "$BROKER_UID" millrace
  getent passwd millrace >/dev/null || useradd --system --uid "$BROKER_UID" --gid millrace \
    --home-dir "$VOLUME" --shell /sbin/nologin millrace
}

prepare() {
#:   local volume
#{ single
  local instance volume device
#}
  ensure_user
#:   own_devices
#{ single
  instance=$(insist 'reading the instance id' metadata instance-id) ||
    die 'the instance metadata does not answer'
#}
  volume=$(find_volume)
#:   insist 'attaching the log volumes of the zone' attach_shared || die 'they cannot be attached; check the role'
#{ single
  RECOVERY=meta/nodes/$SLOT/recovery/$volume
  attach_volume "$volume" "$instance"
  device=$(find_device "$volume")
#}
  fetch_broker
  install -d -m 0755 "$RUN"
#:   echo "$volume" >"$RUN/volume"
  # The control plane writes the first one after the apply that creates the instance, and clients are served
  # without it.
  "$SELF" refresh_link || say 'no link credential yet; trying each minute'
#:   make_folders
#{ single
  mount_volume "$device"
#}
  write_properties
#{ single
  recover_volume
  say "$volume is mounted from $device"
#}
}

# Starts within ten minutes double the wait before the next, from none to a minute.
backoff() {
  local starts=$RUN/starts now count wait
  now=$(cut -d. -f1 /proc/uptime)
  touch "$starts"
  awk -v now="$now" '$1 > now - 600' "$starts" | tail -n 10 >"$starts.new"
  count=$(wc -l <"$starts.new")
  wait=$((count == 0 ? 0 : 1 << (count < 6 ? count : 6)))
  echo "$now" >>"$starts.new"
  mv "$starts.new" "$starts"
  sleep "$((wait < 60 ? wait : 60))"
#:   # The password may be another one by now. As a child, because it ends where it fails.
#:   "$SELF" write_properties || say 'the settings stay as they are'
}

# ---------------------------------------------------------------------------------------------------
# Each minute

# As the load balancer checks it: a broker listens once it serves.
is_ready() { timeout 5 bash -c ": </dev/tcp/127.0.0.1/$KAFKA_PORT" 2>/dev/null; }

report() {
  local ready=0 used dimensions="[{Name=Cluster,Value=$CLUSTER_ID},{Name=Slot,Value=$SLOT}]" data
  ! is_ready || ready=1
  data=("MetricName=Ready,Value=$ready,Dimensions=$dimensions")
  if mountpoint -q "$VOLUME"; then
    used=$(df --output=pcent "$VOLUME" | tail -n 1 | tr -dc 0-9)
    data+=("MetricName=WalVolumeUsedPercent,Unit=Percent,Value=$used,Dimensions=$dimensions")
  fi
  aws_api cloudwatch put-metric-data --namespace Millrace --metric-data "${data[@]}"
}

# Whose lines they are, kept where the metadata does not answer.
identify() {
  metadata instance-id >"$SPOOL/instance.new"
  mv "$SPOOL/instance.new" "$SPOOL/instance"
}

# What the journal has since the last shipment that arrived, oldest first, at most one call's worth. A
# shipment whose answer was lost is sent again: a line may be doubled, none is missing.
ship_logs() {
  local cursor=$SPOOL/cursor stream after=(--boot) code=0
  stream=slot-$SLOT/$(cat "$SPOOL/instance")
  [ ! -s "$cursor" ] || after=(--after-cursor "$(cat "$cursor")")
  { journalctl -q --all -o json --unit 'millrace*' "${after[@]}" || true; } |
    python3 "$SPOOL/batch.py" "$SPOOL/events.json" "$cursor.new"
  [ -s "$cursor.new" ] || return 0
  put_events "$stream" || code=$?
  if [ "$code" != 0 ]; then
    aws_api logs create-log-stream --log-group-name "$LOG_GROUP" --log-stream-name "$stream" ||
      true
    put_events "$stream"
  fi
  mv "$cursor.new" "$cursor"
}

put_events() {
  aws_api logs put-log-events --log-group-name "$LOG_GROUP" --log-stream-name "$1" \
    --log-events "file://$SPOOL/events.json" >/dev/null
}

# Each part for itself: what the network refuses must not keep the volume from growing.
tick() {
  local part failed=0
#:   for part in attach_shared refresh_link identify report ship_logs; do
#{ single
  for part in grow refresh_link identify report ship_logs; do
#}
    # As a child: the shell ignores errors inside a function that is tested.
    "$SELF" "$part" || { say "$part failed"; failed=1; }
  done
  return "$failed"
}

# ---------------------------------------------------------------------------------------------------
# Installation

write_batcher() {
  cat >"$SPOOL/batch.py" <<'EOF'
import json, sys
# One shipment; the service takes 1 MiB and 10,000 lines.
bytes_max, lines_max = 900000, 5000
events, cursor, size = [], "", 0
for line in sys.stdin:
    entry = json.loads(line)
    message = entry.get("MESSAGE") or ""
    # Bytes that are not UTF-8.
    if isinstance(message, list):
        message = bytes(message).decode("utf-8", "replace")
    message = message[:8192] or " "
    size += len(message.encode()) + 26
    if size > bytes_max or len(events) >= lines_max:
        break
    events.append({"timestamp": int(entry["__REALTIME_TIMESTAMP"]) // 1000, "message": message})
    cursor = entry["__CURSOR"]
events.sort(key=lambda event: event["timestamp"])
open(sys.argv[1], "w").write(json.dumps(events))
open(sys.argv[2], "w").write(cursor)
EOF
}

write_units() {
  local units=/etc/systemd/system
  cat >"$units/millrace-slot.service" <<EOF
[Unit]
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$SELF prepare
# A broker whose slot was not ready at boot is started by the attempt that succeeds.
ExecStartPost=systemctl --no-block start millrace.service
Restart=on-failure
RestartSec=30
TimeoutStartSec=30min
[Install]
WantedBy=multi-user.target
EOF
  cat >"$units/millrace.service" <<EOF
[Unit]
Requires=millrace-slot.service
After=millrace-slot.service var-lib-millrace.mount
StartLimitIntervalSec=0
[Service]
User=millrace
Group=millrace
ExecStartPre=+$SELF backoff
ExecStart=$OPT/current/millrace broker --config $ETC/server.properties --log-format json
#{ single
ExecStopPost=+$SELF ended
#}
Restart=always
RestartSec=1
# Wrong command line, data or settings: the next start would fail the same way.
RestartPreventExitStatus=64 65 78
TimeoutStartSec=90
# The drain of 20 s, then what is uploaded before the end.
TimeoutStopSec=120
KillMode=mixed
LimitNOFILE=65536
LimitMEMLOCK=infinity
LimitCORE=0
MemoryMax=92%
OOMScoreAdjust=-500
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=$VOLUME
ProtectHome=yes
PrivateTmp=yes
#{ single
PrivateDevices=yes
#}
#:DevicePolicy=closed
#:DeviceAllow=block-blkext rw
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
#{ single
CapabilityBoundingSet=
#}
#:CapabilityBoundingSet=$CAPABILITIES
#:AmbientCapabilities=$CAPABILITIES
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @debug @module @mount @obsolete @raw-io @reboot @swap
UMask=0077
EOF
  cat >"$units/millrace-tick.service" <<EOF
[Service]
Type=oneshot
ExecStart=$SELF tick
TimeoutStartSec=5min
EOF
  cat >"$units/millrace-tick.timer" <<'EOF'
[Timer]
OnBootSec=1min
OnUnitInactiveSec=1min
AccuracySec=5s
[Install]
WantedBy=timers.target
EOF
}

install_slot() {
  [ "$0" -ef "$SELF" ] || install -D -m 0755 "$0" "$SELF"
  install -d -m 0700 "$SPOOL"
  write_batcher
  write_units
  systemctl daemon-reload
  systemctl enable millrace-slot.service millrace-tick.timer
  systemctl --no-block start millrace-slot.service millrace-tick.timer
}

case "${1:-install}" in
  install) install_slot ;;
#:   attach_shared | write_properties) "$1" ;;
  prepare | backoff | ended | tick | grow | refresh_link | identify | report | ship_logs) "$1" ;;
  *) die "unknown step $1" ;;
esac
