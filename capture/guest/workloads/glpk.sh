# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    /usr/bin/perl /halfwink/flows.pl >/tmp/flows.lp
    record_later
}
if [ "$1" = run ]; then
    exec /usr/bin/glpsol --lp /tmp/flows.lp -o /dev/null >/dev/null
fi
