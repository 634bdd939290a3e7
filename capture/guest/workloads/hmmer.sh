# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    /usr/bin/perl /halfwink/proteins.pl family >/tmp/family.afa
    /usr/bin/perl /halfwink/proteins.pl database >/tmp/database.fa
    /usr/bin/hmmbuild --informat afa /tmp/family.hmm /tmp/family.afa >/dev/null
    record_later
}
if [ "$1" = run ]; then
    exec /usr/bin/hmmsearch --cpu 0 --max -o /dev/null /tmp/family.hmm /tmp/database.fa
fi
