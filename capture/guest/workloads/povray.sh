# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    record_later
}
if [ "$1" = run ]; then
    cd /tmp
    exec /usr/bin/povray -D -GA +WT1 +W640 +H480 +A0.2 +FN +O/dev/null +I/halfwink/scene.pov >/dev/null 2>&1
fi
