# The life of one broker slot's instance, on Amazon Linux 2023 with nothing downloaded but the broker.
#
# cloud-init runs this once per instance (`install`). systemd runs the installed copy from then on:
# `prepare` at each boot, `backoff` before each start of the broker, `tick` each minute. Every step
# looks before it acts, so each may be repeated, or cut off at any point.
#
# What a slot owns is its volume: the write-ahead log holds acknowledged records that no object has
# yet, and the metadata says what the objects mean. So a device is formatted only if it is blank
# throughout where anything could announce itself AND the bucket is empty. In every other case of
# doubt this stops and says what it found: a slot that does not start loses nothing.
set -euo pipefail
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export AWS_DEFAULT_REGION="$REGION" AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=5 AWS_PAGER=''

SELF=/usr/local/sbin/millrace-slot
VOLUME_DIR=/var/lib/millrace
RUN_DIR=/run/millrace
ETC_DIR=/etc/millrace
OPT_DIR=/opt/millrace
SPOOL_DIR=/var/spool/millrace
# The same on every instance, since files on the volume carry it from one to the next.
MILLRACE_UID=1644
# How often, every five seconds, a volume may be found with an instance that is being ended.
ATTACH_ATTEMPTS_MAX=120
# How often, every second, a device may be missing that is attached.
DEVICE_ATTEMPTS_MAX=60
# Attempts at a call whose permission may be seconds old; with AWS_MAX_ATTEMPTS inside each.
CALL_ATTEMPTS_MAX=10
# A fresh volume is zeros. Every file system, partition table, RAID, and write-ahead log says so in
# its first or its last bytes.
BLANK_HEAD_MIB=16
BLANK_TAIL_MIB=1
# What one shipment of log lines may have; the service takes 1 MiB and 10,000 lines.
LOG_BYTES_MAX=900000
LOG_LINES_MAX=5000

say() { echo "millrace-slot: $*" >&2; }
die() {
  say "REFUSED: $*"
  exit 1
}

# Repeats a command that may fail for a while: `insist <what for> <command…>`.
insist() {
  local what=$1 attempt
  shift
  for ((attempt = 1; attempt <= CALL_ATTEMPTS_MAX; attempt++)); do
    if "$@"; then return 0; fi
    say "$what failed (attempt $attempt of $CALL_ATTEMPTS_MAX)"
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

call_aws() { aws --cli-connect-timeout 5 --cli-read-timeout 60 --output text "$@"; }

# ---------------------------------------------------------------------------------------------------
# The volume

list_volumes() {
  call_aws ec2 describe-volumes --query 'Volumes[].VolumeId' --filters \
    "Name=tag:millrace:cluster,Values=$CLUSTER_ID" "Name=tag:millrace:slot,Values=$SLOT" \
    Name=status,Values=creating,available,in-use
}

find_volume() {
  local found ids
  found=$(insist 'looking for the volume' list_volumes) || die 'the volume cannot be looked for;' \
    'look at the role (ec2:DescribeVolumes) and the endpoint of EC2'
  read -r -d '' -a ids <<<"$found" || true
  [ "${#ids[@]}" = 1 ] || die "${#ids[@]} volumes carry the tags millrace:cluster=$CLUSTER_ID and" \
    "millrace:slot=$SLOT; exactly one must: ${found:-none}"
  echo "${ids[0]}"
}

attach_volume() {
  local volume=$1 instance=$2 attempt answer state holder
  for ((attempt = 1; attempt <= ATTACH_ATTEMPTS_MAX; attempt++)); do
    answer=$(call_aws ec2 describe-volumes --volume-ids "$volume" \
      --query 'Volumes[0].[State,Attachments[0].InstanceId]') || answer='unknown None'
    read -r state holder <<<"$answer"
    if [ "$holder" = "$instance" ]; then return 0; fi
    if [ "$state" = available ]; then
      call_aws ec2 attach-volume --volume-id "$volume" --instance-id "$instance" \
        --device /dev/sdf >/dev/null || say "$volume was not attached; trying again"
    else
      # Never by force: the other instance may still write.
      say "$volume is $state, held by $holder; waiting until it is free"
    fi
    sleep 5
  done
  die "$volume is still $state, held by $holder; end that instance, or detach the volume from it"
}

# By the volume's id, which the NVMe controller tells as its serial number: names such as
# /dev/nvme1n1 change from boot to boot.
find_device() {
  local link=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${1/-/} attempt
  for ((attempt = 1; attempt <= DEVICE_ATTEMPTS_MAX; attempt++)); do
    if [ -b "$link" ]; then
      readlink -f "$link"
      return 0
    fi
    sleep 1
  done
  die "$1 is attached, but $link did not appear; is the instance type a Nitro one?"
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
  if ((mib < BLANK_HEAD_MIB + BLANK_TAIL_MIB)); then
    say "$device has $bytes bytes, which is no volume for a log"
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
  if ! is_zero "$device" 0 "$BLANK_HEAD_MIB" ||
    ! is_zero "$device" "$((mib - BLANK_TAIL_MIB))" "$BLANK_TAIL_MIB"; then
    say "$device holds bytes that are not zero"
    return 1
  fi
}

# Of all slots: they share the bucket. BROKERS_PER_CLUSTER_MAX says what more than one would need.
count_objects() {
  call_aws s3api list-objects-v2 --bucket "$DATA_BUCKET" --max-keys 1 --query KeyCount
}

format() {
  local device=$1 objects
  objects=$(insist 'looking into the bucket' count_objects) ||
    die "$DATA_BUCKET cannot be listed; look at the role (s3:ListBucket)"
  [ "$objects" = 0 ] || die "the volume is blank, but $DATA_BUCKET holds data that only the lost" \
    "volume's metadata can explain; restore that volume from a snapshot, with the same tags"
  say "$device is blank and the bucket is empty: formatting"
  mkfs.xfs -q -K -m "uuid=$(slot_uuid)" "$device"
  sync "$device"
}

marker_text() { printf 'cluster=%s\nslot=%s\n' "$CLUSTER_ID" "$SLOT"; }

# The marker is for people and for volumes that were copied by hand; the file system's id came first.
check_marker() {
  local marker=$VOLUME_DIR/slot
  if [ ! -e "$marker" ]; then
    [ -z "$(find "$VOLUME_DIR" -mindepth 1 ! -path "$marker.new" -print -quit)" ] || {
      umount "$VOLUME_DIR"
      die "the volume holds files but no marker of its slot; look at it from another instance"
    }
    marker_text >"$marker.new"
    sync "$marker.new"
    mv "$marker.new" "$marker"
    sync "$VOLUME_DIR"
  elif [ "$(cat "$marker")" != "$(marker_text)" ]; then
    local found
    found=$(tr '\n' ' ' <"$marker")
    umount "$VOLUME_DIR"
    die "the volume says that it belongs to $found, not to cluster $CLUSTER_ID slot $SLOT"
  fi
}

mount_volume() {
  local device=$1 type uuid
  install -d -m 0755 "$VOLUME_DIR"
  if mountpoint -q "$VOLUME_DIR"; then
    [ "$(findmnt -no SOURCE "$VOLUME_DIR")" = "$device" ] ||
      die "$VOLUME_DIR is another device's mount; unmount it"
  else
    type=$(blkid -p -o value -s TYPE "$device") || type=
    if [ "$type" != xfs ]; then
      is_blank "$device" || die "$device is neither blank nor this slot's, and is left as it is;" \
        "if nothing on it is needed, overwrite it with zeros"
      format "$device"
    fi
    uuid=$(blkid -p -o value -s UUID "$device")
    [ "$uuid" = "$(slot_uuid)" ] || die "$device holds the file system $uuid, not" \
      "$(slot_uuid): it belongs to another cluster or slot, and is left as it is"
    # The device whose id was just read, not "the one with this id": there may be a copy.
    mount -t xfs -o nodev,noexec,nosuid,noatime "$device" "$VOLUME_DIR" ||
      die "$device does not mount; restore it from a snapshot, or repair a copy"
  fi
  check_marker
  grow
  install -d -m 0700 -o millrace -g millrace "$VOLUME_DIR/wal" "$VOLUME_DIR/data"
}

# Takes what the volume grew by, while it is in use. Nothing happens where it did not grow.
grow() {
  if mountpoint -q "$VOLUME_DIR"; then xfs_growfs -d "$VOLUME_DIR" >/dev/null; fi
}

# ---------------------------------------------------------------------------------------------------
# The broker

is_broker() { [ "$(sha256sum <"$1")" = "$BROKER_SHA256  -" ]; }

# Kept by checksum, so that a reboot downloads nothing.
fetch_broker() {
  local folder=$OPT_DIR/$BROKER_SHA256 program next
  program=$folder/millrace next=$folder/.next
  install -d -m 0755 "$OPT_DIR" "$folder"
  if [ ! -f "$program" ] || ! is_broker "$program"; then
    rm -f "$program" "$next"
    insist 'fetching the broker' call_aws s3api get-object \
      --bucket "$BROKER_BUCKET" --key "$BROKER_KEY" "$next" >/dev/null ||
      die "s3://$BROKER_BUCKET/$BROKER_KEY cannot be read; look at the role and the endpoint"
    is_broker "$next" || {
      rm -f "$next"
      die "s3://$BROKER_BUCKET/$BROKER_KEY does not have the SHA-256 $BROKER_SHA256"
    }
    chmod 0755 "$next"
    sync "$next"
    mv "$next" "$program"
  fi
  ln -sfn "$folder" "$OPT_DIR/current"
}

read_secret() {
  call_aws secretsmanager get-secret-value --secret-id "$ADMIN_TOKEN_SECRET" --query SecretString
}

# In memory only: the root volume outlives no instance, but may be copied.
write_token() {
  local token
  install -d -m 0755 "$RUN_DIR"
  token=$(insist 'reading the admin token' read_secret) ||
    die "the secret $ADMIN_TOKEN_SECRET cannot be read; look at the role and the endpoint"
  [ "${#token}" -ge 32 ] || die "the secret $ADMIN_TOKEN_SECRET has fewer than 32 characters"
  install -m 0600 -o millrace -g millrace /dev/null "$RUN_DIR/admin.token.new"
  printf '%s\n' "$token" >"$RUN_DIR/admin.token.new"
  mv "$RUN_DIR/admin.token.new" "$RUN_DIR/admin.token"
}

# A log that exists keeps its capacity, whatever the settings ask for: the broker refuses to open it
# with another, since positions in its ring follow from it.
wal_capacity() {
  local wal=$VOLUME_DIR/wal/wal size
  size=$(stat -c %s "$wal" 2>/dev/null) || size=0
  if [ "$size" = 0 ]; then
    echo "$WAL_CAPACITY_BYTES"
    return
  fi
  [ "$size" = "$WAL_CAPACITY_BYTES" ] ||
    say "the write-ahead log keeps its $size bytes; $WAL_CAPACITY_BYTES were asked for"
  echo "$size"
}

write_properties() {
  local capacity
  capacity=$(wal_capacity)
  install -d -m 0755 "$ETC_DIR"
  install -m 0640 -g millrace /dev/null "$ETC_DIR/server.properties.new"
  cat >"$ETC_DIR/server.properties.new" <<EOF
! Written at each boot; changes are overwritten.
node.id=$SLOT
cluster.id=$CLUSTER_ID
listeners=PLAINTEXT://0.0.0.0:$KAFKA_PORT
advertised.listeners=PLAINTEXT://$ADVERTISED_HOST:$ADVERTISED_PORT
admin.listener=0.0.0.0:$ADMIN_PORT
admin.token.file=$RUN_DIR/admin.token
data.dir=$VOLUME_DIR/data
shutdown.drain.ms=20000
s3.wal.path=0@file://$VOLUME_DIR/wal/wal?capacity=$capacity$WAL_PARAMETERS
s3.data.buckets=0@$DATA_BUCKET_URI
$PROPERTIES
EOF
  "$OPT_DIR/current/millrace" broker --check --config "$ETC_DIR/server.properties.new" >/dev/null ||
    die 'the broker does not take these settings'
  mv "$ETC_DIR/server.properties.new" "$ETC_DIR/server.properties"
}

ensure_user() {
  getent group millrace >/dev/null || groupadd --system --gid "$MILLRACE_UID" millrace
  getent passwd millrace >/dev/null || useradd --system --uid "$MILLRACE_UID" --gid millrace \
    --home-dir "$VOLUME_DIR" --no-create-home --shell /sbin/nologin millrace
}

prepare() {
  local instance volume device
  ensure_user
  instance=$(insist 'reading the instance id' metadata instance-id) ||
    die 'the instance metadata does not answer'
  volume=$(find_volume)
  attach_volume "$volume" "$instance"
  device=$(find_device "$volume")
  mount_volume "$device"
  fetch_broker
  write_token
  write_properties
  say "$volume is mounted from $device; the broker may start"
}

# Starts within ten minutes double the wait before the next, from none to a minute.
backoff() {
  local starts=$RUN_DIR/starts now count wait
  now=$(cut -d. -f1 /proc/uptime)
  touch "$starts"
  awk -v now="$now" '$1 > now - 600' "$starts" | tail -n 10 >"$starts.new"
  count=$(wc -l <"$starts.new")
  wait=$((count == 0 ? 0 : 1 << (count < 6 ? count : 6)))
  echo "$now" >>"$starts.new"
  mv "$starts.new" "$starts"
  sleep "$((wait < 60 ? wait : 60))"
}

# ---------------------------------------------------------------------------------------------------
# Each minute

is_ready() {
  curl -sf -m 5 -o /dev/null -H @- "http://127.0.0.1:$ADMIN_PORT/readyz" \
    <<<"Authorization: Bearer $(cat "$RUN_DIR/admin.token" 2>/dev/null)"
}

report() {
  local ready=0 used dimensions="[{Name=Cluster,Value=$CLUSTER_ID},{Name=Slot,Value=$SLOT}]" data
  if is_ready; then ready=1; fi
  data=("MetricName=Ready,Value=$ready,Dimensions=$dimensions")
  if mountpoint -q "$VOLUME_DIR"; then
    used=$(df --output=pcent "$VOLUME_DIR" | tail -n 1 | tr -dc 0-9)
    data+=("MetricName=WalVolumeUsedPercent,Unit=Percent,Value=$used,Dimensions=$dimensions")
  fi
  call_aws cloudwatch put-metric-data --namespace Millrace --metric-data "${data[@]}"
}

# Whose lines they are, kept where the metadata does not answer.
identify() {
  metadata instance-id >"$SPOOL_DIR/instance.new"
  mv "$SPOOL_DIR/instance.new" "$SPOOL_DIR/instance"
}

# What the journal has since the last shipment that arrived, oldest first, at most one call's worth. A
# shipment whose answer was lost is sent again: a line may be doubled, none is missing.
ship_logs() {
  local cursor=$SPOOL_DIR/cursor stream after=(--boot) code=0
  stream=slot-$SLOT/$(cat "$SPOOL_DIR/instance")
  if [ -s "$cursor" ]; then after=(--after-cursor "$(cat "$cursor")"); fi
  { journalctl -q --all -o json --unit 'millrace*' "${after[@]}" || true; } |
    python3 "$SPOOL_DIR/batch.py" "$LOG_BYTES_MAX" "$LOG_LINES_MAX" \
      "$SPOOL_DIR/events.json" "$cursor.new"
  if [ ! -s "$cursor.new" ]; then return 0; fi
  put_events "$stream" || code=$?
  if [ "$code" != 0 ]; then
    call_aws logs create-log-stream --log-group-name "$LOG_GROUP" --log-stream-name "$stream" ||
      true
    put_events "$stream"
  fi
  mv "$cursor.new" "$cursor"
}

put_events() {
  call_aws logs put-log-events --log-group-name "$LOG_GROUP" --log-stream-name "$1" \
    --log-events "file://$SPOOL_DIR/events.json" >/dev/null
}

# Each part for itself: what the network refuses must not keep the volume from growing.
tick() {
  local part failed=0
  for part in grow identify report ship_logs; do
    # As a child: the shell ignores errors inside a function that is tested.
    "$SELF" "$part" || { say "$part failed"; failed=1; }
  done
  return "$failed"
}

# ---------------------------------------------------------------------------------------------------
# Installation

write_batcher() {
  cat >"$SPOOL_DIR/batch.py" <<'EOF'
import json, sys
bytes_max, lines_max = int(sys.argv[1]), int(sys.argv[2])
events, cursor, size = [], "", 0
for line in sys.stdin:
    entry = json.loads(line)
    message = entry.get("MESSAGE") or ""
    if isinstance(message, list):  # bytes that are not UTF-8
        message = bytes(message).decode("utf-8", "replace")
    message = message[:8192] or " "
    size += len(message.encode()) + 26
    if size > bytes_max or len(events) >= lines_max:
        break
    events.append({"timestamp": int(entry["__REALTIME_TIMESTAMP"]) // 1000, "message": message})
    cursor = entry["__CURSOR"]
events.sort(key=lambda event: event["timestamp"])
open(sys.argv[3], "w").write(json.dumps(events))
open(sys.argv[4], "w").write(cursor)
EOF
}

write_units() {
  local units=/etc/systemd/system
  cat >"$units/millrace-slot.service" <<EOF
[Unit]
Description=Broker slot
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$SELF prepare
# A broker whose slot was not ready at boot is started by the attempt that succeeds.
ExecStartPost=/usr/bin/systemctl --no-block start millrace.service
Restart=on-failure
RestartSec=30
TimeoutStartSec=30min
[Install]
WantedBy=multi-user.target
EOF
  cat >"$units/millrace.service" <<EOF
[Unit]
Description=Millrace broker
Requires=millrace-slot.service
After=millrace-slot.service var-lib-millrace.mount
StartLimitIntervalSec=0
[Service]
User=millrace
Group=millrace
ExecStartPre=+$SELF backoff
ExecStart=$OPT_DIR/current/millrace broker --config $ETC_DIR/server.properties --log-format json
Restart=always
RestartSec=1
# Its settings are wrong: the same start again would end the same.
RestartPreventExitStatus=78
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
ReadWritePaths=$VOLUME_DIR
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
CapabilityBoundingSet=
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
[Unit]
Description=Broker slot: growth, metrics, logs
[Service]
Type=oneshot
ExecStart=$SELF tick
TimeoutStartSec=5min
EOF
  cat >"$units/millrace-tick.timer" <<'EOF'
[Unit]
Description=Broker slot: each minute
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
  install -d -m 0700 "$SPOOL_DIR"
  write_batcher
  write_units
  systemctl daemon-reload
  systemctl enable millrace-slot.service millrace-tick.timer
  systemctl --no-block start millrace-slot.service millrace-tick.timer
}

case "${1:-install}" in
  install) install_slot ;;
  prepare | backoff | tick | grow | identify | report | ship_logs) "$1" ;;
  *) die "unknown step $1" ;;
esac
