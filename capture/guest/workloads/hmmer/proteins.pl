# SPDX-License-Identifier: GPL-2.0-or-later
# A family of related proteins, or a database of which one in ten belongs to it. Invented ones.
use strict;
use warnings;
use integer;

my @acids = split //, 'ACDEFGHIKLMNPQRSTVWYAALLLSSGGVVEEKKIITTDDPRNQF';
my $state = 4711;
sub pick { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0]; }
sub chain { return join '', map { $acids[pick(scalar @acids)] } 1 .. $_[0]; }
sub relative { return join '', map { pick(100) < 30 ? $acids[pick(scalar @acids)] : $_ } split //, $_[0]; }

my $ancestor = chain(250);
if ($ARGV[0] eq 'family') {
    print ">member$_\n", relative($ancestor), "\n" for 1 .. 40;
} else {
    for (1 .. 4000) {
        my $body = chain(100 + pick(400));
        substr($body, 20, 0) = relative($ancestor) if $_ % 10 == 0;
        print ">protein$_\n$body\n";
    }
}
