# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    cat /usr/lib/x86_64-linux-gnu/lib*.so.* >/tmp/data
    record_later
}
if [ "$1" = run ]; then
    exec /usr/bin/xz --lzma2=preset=6,dict=32MiB -c /tmp/data >/dev/null
fi
