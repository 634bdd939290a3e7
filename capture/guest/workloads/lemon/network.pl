# SPDX-License-Identifier: GPL-2.0-or-later
# A minimum-cost-flow problem in the DIMACS form, as of vehicles on timetabled trips: a depot, trips
# in the order of their times, and links from each trip to later ones that a vehicle can serve next.
use strict;
use warnings;
use integer;

my ($trips, $links) = @ARGV;
my $state = 12345;
sub pick { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0]; }

# Each trip is left by node 2i+2 and entered by node 2i+3; the depot is 1.
my $nodes = 2 * $trips + 1;
printf "p min %d %d\n", $nodes, $links + 2 * $trips;
for my $i (0 .. $trips - 1) {
    printf "n %d 1\nn %d -1\n", 2 * $i + 3, 2 * $i + 2;
    printf "a 1 %d 0 1 %d\na %d 1 0 1 %d\n", 2 * $i + 2, 5000 + pick(1000), 2 * $i + 3, 5000 + pick(1000);
}
my $each = $links / $trips;
for my $i (0 .. $trips - 1) {
    for (1 .. $each) {
        # The last trips link round to the first, which keeps the number of links even.
        my $ahead = 1 + pick($trips / 4);
        printf "a %d %d 0 1 %d\n", 2 * $i + 3, 2 * (($i + $ahead) % $trips) + 2, $ahead / 10 + pick(300);
    }
}
