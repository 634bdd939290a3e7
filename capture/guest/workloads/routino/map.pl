# SPDX-License-Identifier: GPL-2.0-or-later
# An invented town in the form of OpenStreetMap: a bent grid of streets of several kinds, some closed.
use strict;
use warnings;

my $n = $ARGV[0];
my $state = 2024;
sub pick { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0]; }
my @kinds = qw(residential residential residential tertiary unclassified secondary);

print qq(<?xml version="1.0" encoding="UTF-8"?>\n<osm version="0.6">\n);
for my $y (0 .. $n - 1) {
    for my $x (0 .. $n - 1) {
        printf qq(<node id="%d" lat="%.6f" lon="%.6f"/>\n), $y * $n + $x + 1,
            50 + ($y + pick(60) / 100) / 1000, 8 + ($x + pick(60) / 100) / 1000;
    }
}
my $way = 0;
for my $line (0 .. $n - 1) {
    for my $along (0, 1) {
        my $at = 0;
        while ($at < $n - 1) {
            my $end = $at + 1 + pick(6);
            $end = $n - 1 if $end >= $n;
            if (pick(10)) {
                printf qq(<way id="%d">), ++$way;
                for my $k ($at .. $end) {
                    printf qq(<nd ref="%d"/>), $along ? $k * $n + $line + 1 : $line * $n + $k + 1;
                }
                printf qq(<tag k="highway" v="%s"/></way>\n), $line % 50 == 0 ? 'primary' : $kinds[pick(6)];
            }
            $at = $end;
        }
    }
}
print "</osm>\n";
