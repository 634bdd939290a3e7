# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/later.sh
prepare() {
    record_later
}
if [ "$1" = run ]; then
    exec /usr/games/gnugo --mode gtp --level 10 --seed 1 --gtp-input /halfwink/game.gtp >/dev/null
fi
