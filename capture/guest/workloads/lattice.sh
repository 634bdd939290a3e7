# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    record_later
}
if [ "$1" = run ]; then
    OPENBLAS_NUM_THREADS=1 exec /usr/bin/python3 /halfwink/flow.py
fi
