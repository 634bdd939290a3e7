# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    record_later
}
if [ "$1" = run ]; then
    cd /tmp
    exec /usr/bin/meep /halfwink/cavity.ctl >/dev/null
fi
