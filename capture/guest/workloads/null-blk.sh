# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
# fio reads at random from a device without a medium: what is recorded is the kernel's block layer. A timer of the
# CPU that issued ends each I/O after DEVICE_NS. Jobs on the CPUs of ISSUERS, each bound to its own.
prepare() {
    drive null_blk queue_mode=2 submit_queues="$QUEUES" hw_queue_depth=256 irqmode=2 \
        completion_nsec="$DEVICE_NS" nr_devices=1 gb=4 no_sched=0 || return 1
    echo "$SCHEDULER" >/sys/block/nullb0/queue/scheduler || return 1
    echo "${AFFINITY:-1}" >/sys/block/nullb0/queue/rq_affinity || return 1
    {
        cat <<JOB
[global]
filename=/dev/nullb0
direct=1
rw=randread
bs=4k
ioengine=${ENGINE:-libaio}
iodepth=${DEPTH:-32}
iodepth_batch=${BATCH:-8}
time_based=1
runtime=1000
norandommap=1
randseed=1
gtod_reduce=1
JOB
        for cpu in $ISSUERS; do
            printf '[cpu%s]\ncpus_allowed=%s\n' "$cpu" "$cpu"
        done
    } >/run/job.fio
    record_later
}
if [ "$1" = run ]; then
    exec /usr/bin/fio --output=/dev/null /run/job.fio
fi
