# SPDX-License-Identifier: GPL-2.0-or-later
prepare() {
    cat /usr/bin/busybox /usr/lib/x86_64-linux-gnu/libc.so.6 /usr/sbin/nginx >/tmp/data
}
if [ "$1" = run ]; then
    exec /usr/bin/gzip -6 -c /tmp/data >/dev/null
fi
