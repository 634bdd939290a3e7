# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    cd /tmp
    /usr/bin/perl /halfwink/map.pl 600 >/tmp/map.osm
    /usr/bin/planetsplitter --dir=/tmp --tagging=/usr/share/routino/tagging.xml /tmp/map.osm >/dev/null || return 1
    rm /tmp/map.osm
    record_later
}
if [ "$1" = run ]; then
    cd /tmp
    exec /usr/bin/routino-router --dir=/tmp --profiles=/usr/share/routino/profiles.xml \
        --translations=/usr/share/routino/translations.xml --transport=motorcar --quickest --output-none --quiet \
        --lat1=50.01 --lon1=8.01 --lat2=50.58 --lon2=8.58
fi
