# SPDX-License-Identifier: GPL-2.0-or-later
prepare() {
    cat >/run/work.sql <<'SQL'
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount REAL, note TEXT);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO orders SELECT i, i * 7919 % 1000, i * 31 % 977 / 8.0, printf('order %08d', i) FROM n;
COMMIT;
CREATE INDEX by_customer ON orders (customer);
SELECT count(*), round(sum(amount), 2) FROM orders WHERE customer BETWEEN 100 AND 200;
SELECT customer, count(*), avg(amount) FROM orders GROUP BY customer ORDER BY 3 DESC LIMIT 10;
UPDATE orders SET amount = amount + 1 WHERE id % 10 = 0;
SELECT substr(note, -3) AS tail, max(amount) FROM orders GROUP BY tail ORDER BY 2 DESC LIMIT 5;
DELETE FROM orders WHERE customer < 50;
SELECT count(*) FROM orders a JOIN orders b ON a.customer = b.customer WHERE a.id < 500;
SQL
}
if [ "$1" = run ]; then
    rm -f /tmp/orders.db
    exec /usr/bin/sqlite3 /tmp/orders.db ".read /run/work.sql" >/dev/null
fi
