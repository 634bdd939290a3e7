# SPDX-License-Identifier: GPL-2.0-or-later
# Starts the recording while the program runs: its set-up is long, and its main phase is wanted.

# To be called last in `prepare`. One second of the guest is 10^9 instructions.
record_later() {
    {
        $box sleep "$RECORD_AFTER"
        /halfwink/load mark start
    } &
}
