# SPDX-License-Identifier: GPL-2.0-or-later
PORT=5432
start_server() {
    on_server_cpu $box su postgres -s /bin/sh -c \
        'exec /usr/lib/postgresql/15/bin/postgres -D /var/lib/postgresql/bench' &
}
