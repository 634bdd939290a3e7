# SPDX-License-Identifier: GPL-2.0-or-later
# Runs once inside the unpacked guest, as root.

# Files whose names tell their sizes, for the web servers.
mkdir -p /srv/www/f
for size in 512 1024 2048 4096 6144 8192 16384 32768; do
    head -c "$size" /usr/bin/busybox >"/srv/www/f/$size"
done

# A table for PostgreSQL, filled without a server.
data=/var/lib/postgresql/bench
su postgres -c "/usr/lib/postgresql/15/bin/initdb -D $data --no-sync --locale=C --encoding=UTF8 -A trust" >/dev/null
cat >>"$data/postgresql.conf" <<'CONF'
listen_addresses = '192.0.2.1'
unix_socket_directories = '/tmp'
shared_buffers = 32MB
max_connections = 20
autovacuum = off
jit = off
timezone = 'GMT'
log_timezone = 'GMT'
CONF
echo "host all all 192.0.2.0/24 trust" >>"$data/pg_hba.conf"
su postgres -c "/usr/lib/postgresql/15/bin/postgres --single -D $data postgres" >/dev/null <<'SQL'
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL, filler text NOT NULL)
INSERT INTO accounts SELECT i, 0, repeat(chr(97 + i % 26), 40 + i % 160) FROM generate_series(1, 10000) i
VACUUM FREEZE ANALYZE accounts
SQL
rm -rf /var/lib/postgresql/15
