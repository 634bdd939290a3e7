# SPDX-License-Identifier: GPL-2.0-or-later
# A film of 640 by 360: textured ground that pans, discs that move, some noise.
use strict;
use warnings;

my ($w, $h, $frames) = (640, 360, 60);
my $state = 99;
my @noise = map { $state = ($state * 1103515245 + 12345) & 0x7fffffff; ($state >> 16) % 9 } 1 .. 65536;
my @ground;
for my $y (0 .. $h - 1) {
    push @ground, pack 'C*', map {
        110 + 40 * sin($_ / 23) * sin($y / 17) + 25 * sin(($_ + 2 * $y) / 5) + $noise[($_ * 31 + $y * 517) % 65536]
    } 0 .. 2 * $w - 1;
}
for my $t (0 .. $frames - 1) {
    for my $y (0 .. $h - 1) {
        my $line = substr $ground[($y + $t) % $h], 3 * $t, $w;
        for my $disc (1 .. 5) {
            my $cy = (60 * $disc + 4 * $t) % $h;
            my $half = 900 - ($y - $cy) ** 2;
            next if $half <= 0;
            my $cx = 100 * $disc + ($disc - 3) * 5 * $t;
            $half = int sqrt $half;
            next if $cx - $half < 0 || $cx + $half >= $w;
            substr($line, $cx - $half, 2 * $half) = chr(40 * $disc + $y % 16) x (2 * $half);
        }
        print $line;
    }
    print chr(120 + $t % 8) x ($w * $h / 4), chr(132 - $t % 8) x ($w * $h / 4);
}
