# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    /usr/bin/perl /halfwink/formula.pl 150000 3.9 >/tmp/formula.cnf
    record_later
}
if [ "$1" = run ]; then
    exec /usr/bin/minisat -no-pre -verb=0 /tmp/formula.cnf /dev/null
fi
