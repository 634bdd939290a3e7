# SPDX-License-Identifier: GPL-2.0-or-later
# A random formula of three literals a clause, in the DIMACS form.
use strict;
use warnings;

my ($variables, $ratio) = @ARGV;
my $clauses = int $variables * $ratio;
my $state = 17;
sub pick { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 4) % $_[0]; }

print "p cnf $variables $clauses\n";
for (1 .. $clauses) {
    print join(' ', map { my $v = 1 + pick($variables); pick(64) & 32 ? $v : -$v } 1 .. 3), " 0\n";
}
