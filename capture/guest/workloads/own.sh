# SPDX-License-Identifier: GPL-2.0-or-later
# A program whose source comes along: compiled in the guest, so that the guest's packages decide its code.
. /halfwink/environment
prepare() {
    /usr/bin/gcc -O2 -static -o /tmp/program "/halfwink/$SOURCE" -lm
}
if [ "$1" = run ]; then
    cd /tmp
    # shellcheck disable=SC2086 # these are several arguments
    exec /tmp/program $ARGUMENTS >/dev/null
fi
