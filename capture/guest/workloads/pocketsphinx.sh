# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    # Said by a synthesiser at 16 kHz: its 22 kHz are relabelled with the speed and pitch to match.
    /usr/bin/espeak-ng -v en-us -s 118 -p 36 -w /tmp/said.wav -f /halfwink/said.txt || return 1
    tail -c +45 /tmp/said.wav >/tmp/said.raw
    record_later
}
if [ "$1" = run ]; then
    exec /usr/bin/pocketsphinx_continuous -infile /tmp/said.raw -logfn /dev/null >/dev/null
fi
