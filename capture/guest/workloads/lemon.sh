# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    /usr/bin/perl /halfwink/network.pl 40000 1200000 >/tmp/network.min
    record_later
}
if [ "$1" = run ]; then
    exec /usr/bin/dimacs-solver -q /tmp/network.min /dev/null
fi
