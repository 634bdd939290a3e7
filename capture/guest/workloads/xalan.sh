# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    /usr/bin/perl /halfwink/catalogue.pl >/tmp/catalogue.xml
    record_later
}
if [ "$1" = run ]; then
    exec /usr/bin/Xalan -o /dev/null /tmp/catalogue.xml /halfwink/page.xsl
fi
