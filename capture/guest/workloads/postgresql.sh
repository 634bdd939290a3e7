PORT=5432
start_server() {
    # Not inside a pipe: the server keeps its standard output.
    on_server_cpu $box su postgres -s /bin/sh -c \
        'exec /usr/lib/postgresql/15/bin/pg_ctl -D /var/lib/postgresql/bench -W -l /tmp/postgres.log start' \
        >/dev/null
}
