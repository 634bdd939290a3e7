# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    record_later
}
if [ "$1" = run ]; then
    cd /tmp
    # The search of one position that takes long; sjeng stops when its input ends.
    { printf 'new\nsd 30\nst 100000\ngo\n'; exec sleep 1000; } | /usr/games/sjeng >/dev/null
fi
