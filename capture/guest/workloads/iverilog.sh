# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    /usr/bin/iverilog -o /tmp/network.vvp /halfwink/network.v || return 1
    record_later
}
if [ "$1" = run ]; then
    exec /usr/bin/vvp -n /tmp/network.vvp >/dev/null
fi
